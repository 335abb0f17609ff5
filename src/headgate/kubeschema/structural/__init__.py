"""What an API server does to a custom resource by its structural schema: prune, default, validate.

Given a schema (OpenAPI v3 as in a CustomResourceDefinition) and an object, both plain dicts, it removes
unknown fields, fills in defaults, and hands on every error at once in the words of Kubernetes. It
interprets schemas, so that a kind needs no code of its own; `check` judges a schema before it is used, and
`Prepared` does all of it faster for who judges many objects by one schema.
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
