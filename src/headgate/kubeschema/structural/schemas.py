"""Validates a schema itself when a CustomResourceDefinition brings it, so that objects are validated only by
sound rules."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from headgate.kubeschema.structural import structure
from headgate.kubeschema.structural.errors import (
    NO_FIELD,
    FieldError,
    Findings,
    Path,
    TooManyErrors,
    in_order,
    keyed,
)
from headgate.kubeschema.structural.nodes import LOGIC, Node, nodes
from headgate.kubeschema.structural.rules import rule_faults
from headgate.kubeschema.structural.shaping import MAX_DEPTH, Schema, prune
from headgate.kubeschema.structural.validation import validate_value

__all__ = ["check"]

_RULES: Final = "x-kubernetes-validations"


def check(schema: Schema, field: str = "") -> list[FieldError]:
    """All errors of a schema: not structural, does not compile, nested too deeply, or a default that it
    rejects itself.

    `field` is the path of the schema, for instance "spec.versions[0].schema.openAPIV3Schema".
    """
    path: Path = (None, field) if field else None
    return (
        _found(_malformed(schema, path))
        or _found(fault for node in nodes(schema, path) for fault in _faults(node))
        or _found(fault for node in nodes(schema, path) for fault in _default_faults(node))
    )


def _found(faults: Iterable[FieldError]) -> list[FieldError]:
    findings = Findings()
    with contextlib.suppress(TooManyErrors):
        findings.extend(faults)
    return in_order(findings.errors)


def _malformed(schema: Schema, path: Path) -> Iterator[FieldError]:
    """Errors that make a schema unreadable."""
    for node in nodes(schema, path):
        if node.is_too_deep:
            detail = f"must not be nested deeper than {MAX_DEPTH} levels"
            yield FieldError("FieldValueInvalid", keyed(node.path), detail)
        yield from argument_faults(node)


def _faults(node: Node) -> Iterator[FieldError]:
    yield from structure.faults(node)
    yield from rule_faults(node)


def _default_faults(node: Node) -> Iterator[FieldError]:
    value, field = node.schema.get("default"), keyed((node.path, "default"))
    if value is None or node.is_nested:
        return
    if not _is_pruned(node.schema, value):
        yield FieldError("FieldValueInvalid", field, "must not have unknown fields", value)
        return
    for error in validate_value(node.schema, value):
        if error.field != NO_FIELD:
            inner = error.field if error.field[:1] in ("", "[") else f".{error.field}"
            yield FieldError(error.reason, field + inner, error.detail.strip(), error.value)


def _is_pruned(schema: Schema, value: Any) -> bool:
    holder: dict[str, Any] = {"value": copy.deepcopy(value)}
    return not prune({"properties": {"value": schema}}, holder)


# Types of keyword arguments, so that no check encounters a limit that is text.
#
# kube-apiserver cannot even decode such a schema; here each place is reported.
def argument_faults(node: Node) -> Iterator[FieldError]:
    """Keywords of one schema whose argument has the wrong type, and parts that are not schemas."""
    for keyword, value in node.schema.items():
        if value is None:
            continue
        wanted, fits = _KINDS.get(keyword, _ANYTHING)
        if not fits(value):
            yield _wrong((node.path, keyword), value, wanted)
        elif keyword in _PARTS:
            yield from _no_schemas(keyword, value, (node.path, keyword))


def _no_schemas(keyword: str, value: Any, path: Path) -> Iterator[FieldError]:
    parts = enumerate(value) if isinstance(value, list) else value.items()
    for step, part in parts:
        if not isinstance(part, dict):
            yield _wrong((path, step), part, "a schema")


def _wrong(path: Path, value: Any, wanted: str) -> FieldError:
    return FieldError("FieldValueInvalid", keyed(path), f"must be {wanted}", value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_ANYTHING: Final[tuple[str, Callable[[Any], bool]]] = ("anything", lambda _: True)
_PARTS: Final = frozenset({"properties", *LOGIC})
_KINDS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    **dict.fromkeys(("type", "format", "pattern", "title", "description"), ("a string", _is(str))),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), ("a string", _is(str))),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), ("a number", _is_number)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), ("an integer", _is_count)),
    **dict.fromkeys(("minProperties", "maxProperties"), ("an integer", _is_count)),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), ("true or false", _is(bool))),
    **dict.fromkeys(("nullable", "uniqueItems", "x-kubernetes-int-or-string"), ("true or false", _is(bool))),
    "x-kubernetes-preserve-unknown-fields": ("true or false", _is(bool)),
    "x-kubernetes-embedded-resource": ("true or false", _is(bool)),
    "required": ("a list of strings", _is_texts),
    "x-kubernetes-list-map-keys": ("a list of strings", _is_texts),
    "enum": ("a list", _is(list)),
    "x-kubernetes-validations": ("a list", _is(list)),
    **dict.fromkeys(LOGIC, ("a list of schemas", _is(list))),
    "properties": ("a map of schemas", _is(dict)),
    "items": ("a schema", _is(dict, list)),
    "not": ("a schema", _is(dict)),
    "additionalProperties": ("a schema, true or false", _is(dict, bool)),
}
