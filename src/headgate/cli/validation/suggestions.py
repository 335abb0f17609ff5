"""What would be right instead of what is wrong, as far as the schema and the text tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.api import structural
from headgate.api.structural import FieldError, Schema
from headgate.cli.manifests import Mapping, Place, Scalar, Sequence
from headgate.cli.manifests.scalars import NotJson, resolve
from headgate.cli.validation.spelling import closest

_MOST_NAMES = 12
_MOST_SCHEMAS = 10_000
_LONGEST = 200


def schema_at(schema: Schema, steps: Iterable[str | int]) -> Schema:
    """The schema of the value at keys and indexes; empty where it is not described."""
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
    """The field that a misspelt one at a place stands for."""
    if not place.steps or not isinstance(place.steps[-1], str):
        return None
    return closest(place.steps[-1], schema_at(schema, place.steps[:-1]).get("properties", {}))


def for_unknown(schema: Schema, place: Place) -> str:
    """For a field that the schema does not have at its place."""
    if not place.steps or not isinstance(place.steps[-1], str):
        return ""
    if meant := near(schema, place):
        return f"did you mean {meant}?"
    name = place.steps[-1]
    names = schema_at(schema, place.steps[:-1]).get("properties", {})
    elsewhere = [where for where, known in _fields(schema) if known == name]
    if elsewhere:
        return f"{name} is a field of {' and of '.join(elsewhere[:3])}"
    if not names:
        return "remove it"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"the fields here are {', '.join(list(names)[:_MOST_NAMES])}{more}"


def for_error(schema: Schema, error: FieldError, place: Place) -> str:
    """For a value that the schema refuses."""
    match error.reason:
        case "FieldValueRequired":
            return _described(schema, place)
        case "FieldValueTypeInvalid":
            return _of_type(schema_at(schema, place.steps), place)
        case "FieldValueNotSupported":
            return _of_enum(schema_at(schema, place.steps), error.value)
    return ""


def _described(schema: Schema, place: Place) -> str:
    """What a field that is missing is for."""
    if not place.missing or "." in place.missing or "[" in place.missing:
        return ""
    field = schema_at(schema, [*place.steps, place.missing])
    text = str(field.get("description") or "").partition("\n")[0]
    return f"add {place.missing}: {text[:_LONGEST]}" if text else ""


def _of_type(schema: Schema, place: Place) -> str:
    wanted, node = schema.get("type"), place.node
    if isinstance(node, Scalar):
        if wanted == "string":
            return f'put it in quotes: "{node.text}"'
        if wanted in ("integer", "number", "boolean") and node.is_quoted and _reads_as(node.text, wanted):
            return f"write it without quotes: {node.text}"
    if wanted == "array" and not isinstance(node, Sequence):
        return "write a list: put a dash before each of its items"
    if (
        wanted == "object"
        and isinstance(node, Sequence)
        and node.items
        and isinstance(node.items[0], Mapping)
    ):
        return "write a mapping: leave the dash out"
    return ""


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
    while todo and seen < _MOST_SCHEMAS:
        path, node, depth = todo.pop(0)
        seen += 1
        items = node.get("items")
        if isinstance(items, dict) and depth < structural.MAX_DEPTH:
            todo.append((f"{path}[]", items, depth + 1))
        for name, child in node.get("properties", {}).items():
            yield path or "the object itself", name
            if isinstance(child, dict) and depth < structural.MAX_DEPTH:
                todo.append((f"{path}.{name}" if path else name, child, depth + 1))
