"""Suggest fixes for errors, from the schema and the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from headgate.cli.manifests import Mapping, Place, Scalar, Sequence
from headgate.cli.manifests.scalars import NotJson, resolve
from headgate.cli.validation import spelling
from headgate.cli.validation.spelling import closest
from headgate.kubeschema import duration, regex, structural
from headgate.kubeschema.structural import FieldError, Schema

_MAX_NAMES = 12
_MAX_SCHEMAS = 10_000
_LONGEST = 200
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


def schema_at(schema: Schema, steps: Iterable[str | int]) -> Schema:
    """The schema of the value at keys and indexes; empty if not described."""
    for step in steps:
        if isinstance(step, int):
            child = schema.get("items")
        else:
            child = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
        if not isinstance(child, dict):
            return {}
        schema = child
    return schema


def near(schema: Schema, place: Place) -> str | None:
    """The field that a misspelled one at a place stands for."""
    if not place.steps or not isinstance(place.steps[-1], str):
        return None
    return closest(place.steps[-1], schema_at(schema, place.steps[:-1]).get("properties", {}))


def for_unknown(schema: Schema, place: Place) -> str:
    """Suggestion for a field that the schema does not have at its place."""
    if not place.steps or not isinstance(place.steps[-1], str):
        return ""
    if meant := near(schema, place):
        return f"did you mean {meant}?"
    name = place.steps[-1]
    names = schema_at(schema, place.steps[:-1]).get("properties", {})
    if isinstance(place.node, Scalar) and (maps := [each for each in names if _is_of_texts(names[each])]):
        return f"put it under {maps[0]}: {maps[0]}: {{{name}: {_written(place.node)}}}"
    elsewhere = [where for where, known in _fields(schema) if known == name]
    if elsewhere:
        return f"{name} is a field of {' and of '.join(elsewhere[:3])}"
    if not names:
        return "remove it"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"the fields here are {', '.join(list(names)[:_MAX_NAMES])}{more}"


def _is_of_texts(schema: Schema) -> bool:
    """Whether any name with a text value is allowed there, as for labels."""
    values = schema.get("additionalProperties")
    return isinstance(values, dict) and values.get("type") == "string"


def for_error(schema: Schema, error: FieldError, place: Place) -> str:
    """Suggestion for a value that the schema rejects."""
    match error.reason:
        case "FieldValueInvalid":
            return _of_text(schema_at(schema, place.steps), error, place)
        case "FieldValueRequired":
            return _described(schema, place)
        case "FieldValueTypeInvalid":
            return _of_type(schema_at(schema, place.steps), place)
        case "FieldValueNotSupported":
            return _of_enum(schema_at(schema, place.steps), error.value)
    return ""


def _of_text(schema: Schema, error: FieldError, place: Place) -> str:
    if not isinstance(place.node, Scalar):
        return ""
    text = place.node.text
    if "RFC 1123" in error.detail:
        name = _NOT_IN_NAMES.sub("-", text.lower()).strip("-.")
        return f"did you mean {name}?" if name and name != text else ""
    return _as_text(schema, text)


def _described(schema: Schema, place: Place) -> str:
    """The description of a missing field."""
    if not place.missing or "." in place.missing or "[" in place.missing:
        return ""
    field = schema_at(schema, [*place.steps, place.missing])
    text = str(field.get("description") or "").partition("\n")[0]
    return f"add {place.missing}: {text[:_LONGEST]}" if text else ""


def _of_type(schema: Schema, place: Place) -> str:
    """Suggestion for a value of the wrong type."""
    wanted, node = schema.get("type"), place.node
    if isinstance(node, Scalar):
        return _for_scalar(schema, node)
    if isinstance(node, Sequence) and len(node.items) == 1:
        only = node.items[0]
        if wanted == "object" and isinstance(only, Mapping):
            return "write a mapping: remove the dash"
        if isinstance(only, Scalar) and _takes(schema, only):
            return f"write the one item by itself: {_written(only)}"
    if wanted == "object" and isinstance(node, Sequence) and node.items:
        return "write a mapping: remove the dash" if isinstance(node.items[0], Mapping) else ""
    return "write a list: put a dash before each of its items" if wanted == "array" else ""


def _for_scalar(schema: Schema, node: Scalar) -> str:
    match schema.get("type"):
        case "string":
            return _as_text(schema, node.text) or f'put it in quotes: "{node.text}"'
        case "integer" | "number" | "boolean" as wanted:
            if node.is_quoted and _reads_as(node.text, wanted):
                return f"write it without quotes: {node.text}"
            number = spelling.without_unit(node.text)
            if number is not None and wanted == "integer":
                return f"write a number: {number}"
        case "array":
            return "write a list: put a dash before each of its items"
        case "object":
            return _as_mapping(schema, node)
    return ""


def _as_text(schema: Schema, text: str) -> str:
    """For a number where a duration or another text with a unit is expected: 60 lacks an s, 1d is 24h."""
    try:
        pattern = regex.compiled(schema["pattern"])
    except (KeyError, regex.RegexError):
        return ""
    joined = text.replace(" ", "")
    if not joined[:1].isdigit() or pattern.search(text):
        return ""
    possible = (joined, f"{joined}s", duration.meant(text))
    return next((f"write {each}" for each in possible if pattern.search(each)), "")


def _as_mapping(schema: Schema, node: Scalar) -> str:
    """The fields that a mapping may have, and the value as the first of them that accepts it."""
    fields = schema.get("properties", {})
    names = ", ".join(list(fields)[:_MAX_NAMES])
    first = next((name for name, field in fields.items() if _takes(field, node)), None)
    if first is not None:
        return f"write a mapping with {names}, such as {{{first}: {_written(node)}}}"
    return f"write a mapping with {names}" if names else ""


def _takes(schema: Schema, node: Scalar) -> bool:
    value = node.value
    match schema.get("type"):
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
    return False


def _written(node: Scalar) -> str:
    return f'"{node.text}"' if node.is_quoted else node.text


def _reads_as(text: str, wanted: str) -> bool:
    try:
        value = resolve(text)
    except NotJson:
        return False
    if wanted == "boolean":
        return isinstance(value, bool)
    types = (int,) if wanted == "integer" else (int, float)
    return isinstance(value, types) and not isinstance(value, bool)


def _of_enum(schema: Schema, value: object) -> str:
    allowed = [choice for choice in schema.get("enum", []) if isinstance(choice, str)]
    near = closest(value, allowed) if isinstance(value, str) else None
    return f"did you mean {near}?" if near else ""


def _fields(schema: Schema) -> Iterator[tuple[str, str]]:
    """All fields: the path of the object that has it, and its name."""
    todo, seen = [("", schema, 0)], 0
    while todo and seen < _MAX_SCHEMAS:
        path, node, depth = todo.pop(0)
        seen += 1
        items = node.get("items")
        if isinstance(items, dict) and depth < structural.MAX_DEPTH:
            todo.append((f"{path}[]", items, depth + 1))
        for name, child in node.get("properties", {}).items():
            yield path or "the object itself", name
            if isinstance(child, dict) and depth < structural.MAX_DEPTH:
                todo.append((f"{path}.{name}" if path else name, child, depth + 1))
