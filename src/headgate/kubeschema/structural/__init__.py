"""Prunes, defaults and validates custom resources by their structural schema, as an API server does.

Given a schema (OpenAPI v3 as in a CustomResourceDefinition) and an object, both plain dicts, it removes
unknown fields, fills in defaults, and returns all errors at once with Kubernetes' messages. It interprets
schemas, so that a kind needs no code of its own; `check` validates a schema before it is used, and `Prepared`
does all of it faster if many objects have the same schema.
"""

from headgate.kubeschema.structural.errors import MAX_ERRORS, NO_FIELD, OMITTED, FieldError
from headgate.kubeschema.structural.patterns import is_plain
from headgate.kubeschema.structural.schemas import check
from headgate.kubeschema.structural.shaping import (
    MAX_DEFAULT_BYTES,
    MAX_DEPTH,
    DefaultsTooLarge,
    Schema,
    default,
    prune,
)
from headgate.kubeschema.structural.validation import NOTES, Lacking, Prepared, validate

__all__ = [
    "MAX_DEFAULT_BYTES",
    "MAX_DEPTH",
    "MAX_ERRORS",
    "NOTES",
    "NO_FIELD",
    "OMITTED",
    "DefaultsTooLarge",
    "FieldError",
    "Lacking",
    "Prepared",
    "Schema",
    "check",
    "default",
    "is_plain",
    "prune",
    "validate",
]
