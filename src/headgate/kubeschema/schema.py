"""Derives structural OpenAPI v3 schemas from types, so that types are the only source of defaults and limits.

A struct may add CEL rules by the class attribute `validations`, a field may add keys with `described`.
References are inlined, as Kubernetes requires of a structural schema.
"""

from __future__ import annotations

import functools
import typing
from typing import Any

import msgspec
from msgspec import inspect

Schema = dict[str, Any]

_ROOT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def structural(kind: type[msgspec.Struct], *, keep_unknown: bool = False) -> Schema:
    """The schema of a top-level kind.

    `keep_unknown` lets objects have fields that the type does not name, at every level: for the kinds of
    Kubernetes, whose types here contain only the fields in use.
    """
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    schema = _struct(struct, keep_unknown)
    schema["description"] = (kind.__doc__ or "").strip()
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "Group and version of the kind."},
        "kind": {"type": "string", "description": "What the object is."},
        "metadata": {"type": "object"},
    } | {name: field for name, field in schema["properties"].items() if name not in _ROOT_FIELDS}
    return schema


def _schema(type_: inspect.Type, keep_unknown: bool) -> Schema:
    match type_:
        case inspect.Metadata():
            return _schema(type_.type, keep_unknown) | _extras(type_)
        case inspect.StructType():
            return _struct(type_, keep_unknown)
        case inspect.UnionType():
            return _union(type_, keep_unknown)
        case inspect.ListType():
            return _limits({"type": "array", "items": _schema(type_.item_type, keep_unknown)}, type_)
        case inspect.DictType():
            return _mapping(type_, keep_unknown)
        case inspect.StrType():
            return _limits({"type": "string"}, type_)
        case inspect.IntType():
            return _limits({"type": "integer", "format": "int64"}, type_)
        case inspect.FloatType():
            return _limits({"type": "number"}, type_)
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.LiteralType():
            return {"type": "string", "enum": list(type_.values)}
        case inspect.AnyType():
            return {"x-kubernetes-preserve-unknown-fields": True}
    raise TypeError(f"{type_!r} has no structural schema")


def _struct(type_: inspect.StructType, keep_unknown: bool) -> Schema:
    properties: Schema = {}
    required = []
    for field in type_.fields:
        properties[field.encode_name] = _schema(field.type, keep_unknown) | _default(field)
        if "enum" in properties[field.encode_name]:
            # msgspec sorts them; users see them in the order of the type.
            properties[field.encode_name]["enum"] = _literals(_hints(type_.cls)[field.name])
        if field.required:
            required.append(field.encode_name)
    schema: Schema = {"type": "object", "properties": properties}
    if not keep_unknown:
        required += getattr(type_.cls, "demanded", ())
    if required:
        schema["required"] = required
    if validations := getattr(type_.cls, "validations", None):
        schema["x-kubernetes-validations"] = validations
    if keep_unknown:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema


@functools.cache
def _hints(struct: type) -> dict[str, Any]:
    return typing.get_type_hints(struct, include_extras=True)


def _literals(hint: Any) -> list[Any]:
    """The values of the Literal in a type hint, as written."""
    if typing.get_origin(hint) is typing.Literal:
        return list(typing.get_args(hint))
    return [value for inner in typing.get_args(hint) for value in _literals(inner)]


def _default(field: inspect.Field) -> Schema:
    """Zero, false, "" and empty containers mean "not set" in the types; they are not API defaults.

    A server that wrote them into objects would state things that nobody set, such as a condition's
    `observedGeneration: 0`.
    """
    default = field.default
    if isinstance(default, bool | int | float | str) and default:
        return {"default": default}
    return {}


def _union(type_: inspect.UnionType, keep_unknown: bool) -> Schema:
    members = [member for member in type_.types if not isinstance(member, inspect.NoneType)]
    if len(members) == 1:
        return _schema(members[0], keep_unknown)
    if all(isinstance(member, inspect.IntType | inspect.StrType) for member in members):
        return {"x-kubernetes-int-or-string": True}
    raise TypeError(f"{type_!r} has no structural schema")


def _mapping(type_: inspect.DictType, keep_unknown: bool) -> Schema:
    if isinstance(type_.value_type, inspect.AnyType):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    values = _schema(type_.value_type, keep_unknown)
    return _limits({"type": "object", "additionalProperties": values}, type_)


_LIMITS = {
    "ge": "minimum",
    "le": "maximum",
    "pattern": "pattern",
}


def _limits(schema: Schema, type_: inspect.Type) -> Schema:
    sized = {"array": "Items", "object": "Properties", "string": "Length"}.get(schema["type"], "")
    names = _LIMITS | {"min_length": f"min{sized}", "max_length": f"max{sized}"}
    for attribute, key in names.items():
        if (value := getattr(type_, attribute, None)) is not None:
            schema[key] = value
    return schema


def _extras(type_: inspect.Metadata) -> Schema:
    """The description and the extra keys of an annotated field; limits are on the inner type already."""
    return dict(type_.extra_json_schema or {})
