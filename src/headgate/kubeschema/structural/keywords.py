"""The check of each schema keyword: types, limits, formats, required fields, list types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.kubeschema.structural import embedded, patterns
from headgate.kubeschema.structural.errors import FieldError, Path, dotted, keyed, number, quoted, shown
from headgate.kubeschema.structural.formats import FORMATS
from headgate.kubeschema.structural.shaping import Schema
from headgate.kubeschema.structural.walk import Check, Walk, list_key

__all__ = ["COMPOSITION", "KEYWORDS"]

_KINDS: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
RANGES = {"int32": 1 << 31, "int64": 1 << 63}


def _type(walk: Walk, expected: str, value: Any, schema: Schema, path: Path) -> None:
    kind = _KINDS.get(type(value), "string")
    if kind == expected:
        if kind == "integer" and "format" not in schema:
            _check_range(walk, value, "int64", "(default format)", path)
        return
    if kind == "null" and schema.get("nullable"):
        return
    if expected == "number" and kind == "integer":
        return
    if expected == "integer" and kind == "number" and value.is_integer():
        return
    _wrong_type(walk, expected, kind, schema, path)


def _wrong_type(walk: Walk, expected: str, kind: str, schema: Schema, path: Path) -> None:
    if "format" in schema and kind not in ("string", "array", "null"):  # Kubernetes then compares formats
        expected, kind = schema["format"], {"number": "float64", "integer": "int64"}.get(kind, kind)
    detail = f'{dotted(path)} in body must be of type {expected}: "{kind}"'
    walk.add("FieldValueTypeInvalid", path, detail, kind)


def _int_or_string(walk: Walk, argument: bool, value: Any, schema: Schema, path: Path) -> None:
    kind = _KINDS.get(type(value), "string")
    is_integer = kind == "integer" or (kind == "number" and value.is_integer())
    if argument and not is_integer and kind != "string":
        _wrong_type(walk, "integer,string", kind, schema, path)


def _format(walk: Walk, name: str, value: Any, schema: Schema, path: Path) -> None:
    if isinstance(value, str):
        accepts = FORMATS.get(name)
        if accepts is not None and schema.get("type") == "string" and not accepts(value):
            detail = f"{dotted(path)} in body must be of type {name}: {quoted(value)}"
            walk.add("FieldValueTypeInvalid", path, detail, value)
    elif name in RANGES and _is_number(value):
        _check_range(walk, value, name, f"with format {name}", path)


def _check_range(walk: Walk, value: float, name: str, words: str, path: Path) -> None:
    limit = RANGES[name]
    if not -limit <= value < limit:
        walk.add("FieldValueInvalid", path, f"Checked value must be of type integer {words}", value)


def _enum(walk: Walk, allowed: list[Any], value: Any, schema: Schema, path: Path) -> None:
    if any(value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in allowed):
        return
    names = (quoted(choice if isinstance(choice, str) else shown(choice)) for choice in allowed)
    shown_value = "null" if value is None else value
    walk.add("FieldValueNotSupported", path, "supported values: " + ", ".join(names), shown_value)


def _minimum(walk: Walk, limit: float, value: Any, schema: Schema, path: Path) -> None:
    if not _is_number(value):
        return
    if schema.get("exclusiveMinimum"):
        if value <= limit:
            walk.invalid(path, value, f"should be greater than {_like(value, limit)}")
    elif value < limit:
        walk.invalid(path, value, f"should be greater than or equal to {_like(value, limit)}")


def _maximum(walk: Walk, limit: float, value: Any, schema: Schema, path: Path) -> None:
    if not _is_number(value):
        return
    if schema.get("exclusiveMaximum"):
        if value >= limit:
            walk.invalid(path, value, f"should be less than {_like(value, limit)}")
    elif value > limit:
        walk.invalid(path, value, f"should be less than or equal to {_like(value, limit)}")


def _multiple_of(walk: Walk, factor: float, value: Any, schema: Schema, path: Path) -> None:
    if _is_number(value) and factor and not (value / factor).is_integer():
        walk.invalid(path, value, f"should be a multiple of {_like(value, factor)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _like(value: float, limit: float) -> str:
    """The limit as Go prints it after comparison with this value: without a fraction for integers."""
    return number(int(limit) if isinstance(value, int) and limit == int(limit) else float(limit))


def _min_length(walk: Walk, limit: int, value: Any, schema: Schema, path: Path) -> None:
    if isinstance(value, str) and len(value) < limit:
        walk.invalid(path, value, f"should be at least {limit} chars long")


def _max_length(walk: Walk, limit: int, value: Any, schema: Schema, path: Path) -> None:
    if isinstance(value, str) and len(value) > limit:
        # Kubernetes says bytes here although it counts code points.
        walk.add("FieldValueTooLong", path, f"may not be more than {limit} bytes", value)


def _has_length(value: str, schema: Schema) -> bool:
    """Whether a text has a length within its bounds; otherwise Kubernetes does not check its pattern."""
    longest = schema.get("maxLength")
    return len(value) >= schema.get("minLength", 0) and (longest is None or len(value) <= longest)


def _pattern(walk: Walk, pattern: str, value: Any, schema: Schema, path: Path) -> None:
    if not isinstance(value, str) or not _has_length(value, schema):
        return
    try:
        is_found = patterns.found(pattern, value)
    except ValueError as problem:
        walk.invalid(path, value, f"should match '{pattern}', but: {problem}")
        return
    if not is_found:
        walk.invalid(path, value, f"should match '{pattern}'")


def _min_items(walk: Walk, limit: int, value: Any, schema: Schema, path: Path) -> None:
    if isinstance(value, list) and len(value) < limit:
        walk.invalid(path, len(value), f"should have at least {limit} items")


def _max_items(walk: Walk, limit: int, value: Any, schema: Schema, path: Path) -> None:
    if isinstance(value, list) and len(value) > limit:
        walk.add("FieldValueTooMany", path, _at_most(limit), len(value))


def _min_properties(walk: Walk, limit: int, value: Any, schema: Schema, path: Path) -> None:
    if isinstance(value, dict) and len(value) < limit:
        walk.invalid(path, len(value), f"should have at least {limit} properties")


def _max_properties(walk: Walk, limit: int, value: Any, schema: Schema, path: Path) -> None:
    if isinstance(value, dict) and len(value) > limit:
        walk.add("FieldValueTooMany", path, _at_most(limit), len(value))


def _at_most(limit: int) -> str:
    return f"must have at most {limit} {'item' if limit == 1 else 'items'}"


def _unique_items(walk: Walk, argument: bool, value: Any, schema: Schema, path: Path) -> None:
    if argument and isinstance(value, list) and _repeated(value, repr):
        walk.invalid(path, "", "shouldn't contain duplicates")


def _required(walk: Walk, names: list[str], value: Any, schema: Schema, path: Path) -> None:
    if not isinstance(value, dict):
        return
    for name in names:
        if name not in value:
            walk.add("FieldValueRequired", (path, name), "", None)


def _embedded_resource(walk: Walk, argument: bool, value: Any, schema: Schema, path: Path) -> None:
    if argument and isinstance(value, dict):
        walk.extend(embedded.faults(value, path))


def _list_type(walk: Walk, name: str, value: Any, schema: Schema, path: Path) -> None:
    if not isinstance(value, list):
        return
    if name == "set":
        repeated = {index: value[index] for index in _repeated(value, repr)}
    elif name == "map":
        keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                detail = "must be an object for an array of list-type map"
                walk.add("FieldValueInvalid", (path, index), detail, item)
        repeated = {
            index: {key: value[index].get(key) for key in keys}
            for index in _repeated(value, lambda item: list_key(keys, item))
            if isinstance(value[index], dict)
        }
    else:
        return
    for index, identity in repeated.items():
        walk.findings.add("FieldValueDuplicate", keyed((path, index)), "", identity)


def _repeated(items: list[Any], identity: Callable[[Any], str]) -> list[int]:
    """The indexes of items that equal an earlier one."""
    seen: set[str] = set()
    repeated = []
    for index, item in enumerate(items):
        key = identity(item)
        if key in seen:
            repeated.append(index)
        seen.add(key)
    return repeated


KEYWORDS: Final[dict[str, Check]] = {
    "type": _type,
    "x-kubernetes-int-or-string": _int_or_string,
    "format": _format,
    "enum": _enum,
    "minimum": _minimum,
    "maximum": _maximum,
    "multipleOf": _multiple_of,
    "minLength": _min_length,
    "maxLength": _max_length,
    "pattern": _pattern,
    "minItems": _min_items,
    "maxItems": _max_items,
    "minProperties": _min_properties,
    "maxProperties": _max_properties,
    "uniqueItems": _unique_items,
    "required": _required,
    "x-kubernetes-embedded-resource": _embedded_resource,
    "x-kubernetes-list-type": _list_type,
}


# allOf, anyOf, oneOf and not: schemas that combine others by value.
def _all_of(walk: Walk, branches: list[Schema], value: Any, schema: Schema, path: Path) -> None:
    results = [walk.branch(branch, value, path) for branch in branches]
    for errors in results:
        walk.extend(errors)
    if any(results):
        _fail(
            walk, path, "must validate all the schemas (allOf)", "" if not all(results) else "None validated"
        )


def _any_of(walk: Walk, branches: list[Schema], value: Any, schema: Schema, path: Path) -> None:
    results = []
    for branch in branches:
        results.append(walk.branch(branch, value, path))
        if not results[-1]:
            return
    _fail(walk, path, "must validate at least one schema (anyOf)", "")
    walk.extend(_closest(results))


def _one_of(walk: Walk, branches: list[Schema], value: Any, schema: Schema, path: Path) -> None:
    results = [walk.branch(branch, value, path) for branch in branches]
    valid = sum(not errors for errors in results)
    if valid == 1:
        return
    found = f"Found {valid} valid alternatives" if valid else "Found none valid"
    _fail(walk, path, "must validate one and only one schema (oneOf)", found)
    if not valid:
        walk.extend(_closest(results))


def _not(walk: Walk, branch: Schema, value: Any, schema: Schema, path: Path) -> None:
    if not walk.branch(branch, value, path):
        _fail(walk, path, "must not validate the schema (not)", "")


def _fail(walk: Walk, path: Path, complaint: str, found: str) -> None:
    detail = f"{quoted(dotted(path))} {complaint}"
    walk.add("FieldValueInvalid", path, f"{detail}. {found}" if found else detail, "")


def _closest(results: list[list[FieldError]]) -> list[FieldError]:
    """The errors of the alternative with the fewest errors, which is probably the intended one."""
    return min(results, key=len, default=[])


COMPOSITION: Final[dict[str, Check]] = {"allOf": _all_of, "anyOf": _any_of, "oneOf": _one_of, "not": _not}
