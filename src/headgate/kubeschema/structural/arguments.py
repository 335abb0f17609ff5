"""What the keywords of a schema must be given, so that no check meets a limit that is text.

kube-apiserver cannot even decode such a schema; here each place is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from headgate.kubeschema.structural.errors import FieldError
from headgate.kubeschema.structural.nodes import LOGIC, Node
from headgate.kubeschema.structural.paths import Path, keyed

__all__ = ["faults"]


def faults(node: Node) -> Iterator[FieldError]:
    """Keywords of one schema whose argument is of the wrong type, and parts that are no schemas."""
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
