"""A schema as a list of fields for people: path, type, default, bounds, description.

`headgate explain-field` prints them, and the tables of the reference pages are generated from them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from headgate.kubeschema import duration, quantity

Schema = dict[str, Any]

_BOUNDS = (
    *("enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "format"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)
_SIZED = (("Length", "character"), ("Items", "item"), ("Properties", "entry"))
_METADATA = "Name, namespace, labels and annotations, as every object has them."
_KNOWN = {
    duration.SCHEMA["pattern"]: "a duration such as 1m30s",
    quantity.SCHEMA["pattern"]: "a quantity such as 500m or 16Gi",
    quantity.POSITIVE["pattern"]: "a quantity above 0, such as 500m or 16Gi",
}
"""Patterns that have a readable name."""

_INDEX = re.compile(r"\[[^]]*\]")
_HAS = re.compile(r"has\(\w+\.(\w+)\)")
_FIELD = re.compile(r"\.(?!all\()\w")


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a kind."""

    path: str
    """From the root, with [] for an item of a list and * for a value of a map: spec.rules[].name."""
    type: str
    """As in `string`, `[]object`, `map[string]string`."""
    description: str
    required: bool
    schema: Schema

    @property
    def name(self) -> str:
        """The last step of the path; empty for the object itself."""
        return self.path.rpartition(".")[2]

    @property
    def bounds(self) -> dict[str, Any]:
        """The schema keywords that limit the value; for a list of scalars, also those of its items."""
        limits = {keyword: self.schema[keyword] for keyword in _BOUNDS if keyword in self.schema}
        inner = _inner(self.schema)
        if inner is not None and "properties" not in inner:
            of_each = {keyword: inner[keyword] for keyword in _BOUNDS if keyword in inner}
            limits |= {f"each {keyword}": value for keyword, value in of_each.items()}
        return limits

    @property
    def rules(self) -> list[str]:
        """Messages of the CEL rules, including those of items and values.

        Rules that can never fail are left out: those that only require a field with a default in every item.
        """
        inner = _inner(self.schema) or {}
        return [
            _message(rule)
            for schema in (self.schema, inner)
            for rule in schema.get("x-kubernetes-validations", ())
            if not _always_holds(rule["rule"], inner)
        ]


def _message(rule: Schema) -> str:
    """The message, after the field that it is about."""
    place = rule.get("fieldPath", "").removeprefix(".")
    return f"{place}: {rule['message']}" if place else str(rule["message"])


def _always_holds(rule: str, item: Schema) -> bool:
    asked = _HAS.findall(rule)
    with_default = {name for name, child in item.get("properties", {}).items() if "default" in child}
    return bool(asked) and with_default.issuperset(asked) and not _FIELD.search(_HAS.sub("", rule))


class NoSuchFieldError(LookupError):
    """A path without a field; `close` has the paths that were probably meant."""

    def __init__(self, parent: Field, name: str, close: list[str]) -> None:
        super().__init__(f"{parent.path or 'the object'} has no field {name!r}")
        self.close = close


def root(schema: Schema) -> Field:
    """The object itself."""
    return _field("", schema, required=True)


def children(field: Field) -> Iterator[Field]:
    """The direct fields; for a list or a map of objects, those of its items or values."""
    schema, path = _objects(field.schema, field.path)
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        yield _field(f"{path}.{name}" if path else name, child, required=name in required)


def below(field: Field) -> Iterator[Field]:
    """All fields inside, each before its own fields."""
    for child in children(field):
        yield child
        yield from below(child)


def find(schema: Schema, path: str) -> Field:
    """The field at a path in any of these forms: spec.rules.name, spec.rules[].name, spec.rules[0].name.

    Raises NoSuchFieldError.
    """
    field = root(schema)
    for name in _INDEX.sub("", path).split("."):
        if name in ("", "*"):
            continue
        inside = {child.name: child for child in children(field)}
        if name not in inside:
            raise NoSuchFieldError(field, name, _close(schema, field, name))
        field = inside[name]
    return field


def in_words(field: Field) -> str:
    """The bounds in words: "0 to 100", "at most 16 items", "one of http, https"."""
    bounds = field.bounds
    each = {key.removeprefix("each "): value for key, value in bounds.items() if key.startswith("each ")}
    words = _limits(bounds) + [f"each {text}" for text in _limits(each)]
    return "; ".join(words)


def _limits(bounds: dict[str, Any]) -> list[str]:
    words = []
    if "enum" in bounds:
        words.append("one of " + ", ".join(map(str, bounds["enum"])))
    if bounds.get("pattern") != quantity.POSITIVE["pattern"]:
        words += _range(bounds.get("minimum"), bounds.get("maximum"), "")
    for suffix, unit in _SIZED:
        words += _range(bounds.get(f"min{suffix}") or None, bounds.get(f"max{suffix}"), unit)
    if "pattern" in bounds:
        words.append(_KNOWN.get(bounds["pattern"]) or f"matches {bounds['pattern']}")
    if bounds.get("format") == "date-time":
        words.append("RFC 3339 time")
    return words


def _range(low: float | None, high: float | None, unit: str) -> list[str]:
    if low is not None and high is not None:
        return [f"{low} to {_counted(high, unit)}"]
    if low is not None:
        return [f"at least {_counted(low, unit)}"]
    return [f"at most {_counted(high, unit)}"] if high is not None else []


def _counted(number: float, unit: str) -> str:
    if not unit:
        return str(number)
    plural = f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"
    return f"{number} {unit if number == 1 else plural}"


def _field(path: str, schema: Schema, *, required: bool) -> Field:
    description = schema.get("description", _METADATA if path == "metadata" else "")
    return Field(path=path, type=_type(schema), description=description, required=required, schema=schema)


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"[]{_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map[string]{_type(schema['additionalProperties'])}"
    return str(kind)


def _inner(schema: Schema) -> Schema | None:
    """The schema of the items of a list or the values of a map."""
    inner = schema.get("items", schema.get("additionalProperties"))
    return inner if isinstance(inner, dict) else None


def _objects(schema: Schema, path: str) -> tuple[Schema, str]:
    while (inner := _inner(schema)) is not None:
        path += "[]" if "items" in schema else ".*"
        schema = inner
    return schema, path


def _close(schema: Schema, parent: Field, name: str) -> list[str]:
    """Paths that were probably meant: siblings with similar names, and the same name elsewhere."""
    beside = {child.name.lower(): child.path for child in children(parent)}
    alike = [beside[match] for match in difflib.get_close_matches(name.lower(), beside, n=3, cutoff=0.6)]
    elsewhere = [field.path for field in below(root(schema)) if field.name.lower() == name.lower()]
    return list(dict.fromkeys([*alike, *elsewhere]))[:5]
