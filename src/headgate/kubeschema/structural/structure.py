"""Kubernetes' requirements for structural schemas, and for its own extensions.

A structural schema declares all types outright, so that a server can prune and default without trying
alternatives; allOf and similar keywords only validate. Field paths and messages are those of kube-apiserver
(apiextensions-apiserver, pkg/apis/apiextensions/validation and pkg/apiserver/schema).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.kubeschema.structural import patterns
from headgate.kubeschema.structural.errors import FieldError, MapKey, Path, keyed
from headgate.kubeschema.structural.nodes import LOGIC, Node
from headgate.kubeschema.structural.shaping import Schema

__all__ = ["faults"]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_KEEP: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP_TYPE: Final = "x-kubernetes-map-type"

_UNSUPPORTED: Final = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
_UNTYPED: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NOT_IN_LOGIC: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    _KEEP: "must be false to be structural",
    _EMBEDDED: "must be false to be structural",
    _INT_OR_STRING: "must be false to be structural",
    _LIST_KEYS: "must be empty to be structural",
    _LIST_TYPE: "must be undefined to be structural",
    _MAP_TYPE: "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_INTEGER_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_NOTHING: Schema = {}


def faults(node: Node) -> Iterator[FieldError]:
    """The errors of one schema by itself; schemas inside it have nodes of their own."""
    yield from _general(node)
    if node.is_nested:
        yield from _nested(node)
        return
    yield from _types(node)
    yield from _extensions(node)
    yield from _lists(node.schema, node.path)
    yield from _metadata(node)
    yield from _undeclared(node.schema, node.path)


def _general(node: Node) -> Iterator[FieldError]:
    schema, path = node.schema, node.path
    kind = schema.get("type")
    if kind == "null":
        yield _forbidden((path, "type"), "type cannot be set to null, use nullable as an alternative")
    elif kind not in (None, "", *_TYPES):
        yield _unsupported((path, "type"), kind, _TYPES)
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield _forbidden((path, keyword), f"{keyword} is not supported")
    if schema.get("uniqueItems") is True:
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield _forbidden((path, "uniqueItems"), detail)
    if isinstance(schema.get("items"), list):
        yield _forbidden((path, "items"), "items must be a schema object and not an array")
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        detail = "additionalProperties and properties are mutual exclusive"
        yield _forbidden((path, "additionalProperties"), detail)
    if isinstance(pattern := schema.get("pattern"), str) and (wrong := patterns.fault(pattern)):
        yield _invalid((path, "pattern"), pattern, wrong)


def _nested(node: Node) -> Iterator[FieldError]:
    for keyword, detail in _NOT_IN_LOGIC.items():
        if node.schema.get(keyword) not in (None, "", False, []) and not _says_int_or_string(node):
            yield _forbidden((node.path, keyword), detail)
    if "metadata" in _properties(node.schema):
        where = ((node.path, "properties"), MapKey("metadata"))
        yield _forbidden(where, "must not be specified in a nested context")


def _says_int_or_string(node: Node) -> bool:
    """The one pattern that may declare types: anyOf integer and string, which old schemas contain."""
    return node.schema in _INTEGER_OR_STRING and node.path is not None and _is_any_of(node.path[0])


def _is_any_of(path: Path) -> bool:
    return path is not None and path[1] == "anyOf"


def _types(node: Node) -> Iterator[FieldError]:
    schema, path, kind = node.schema, node.path, node.schema.get("type")
    if schema.get(_EMBEDDED) and kind != "object":
        yield _must_be(path, "object", f"if {_EMBEDDED} is true", kind)
    elif not kind and not schema.get(_INT_OR_STRING) and not schema.get(_KEEP):
        yield _required((path, "type"), _UNTYPED[node.place])
    if node.place == "root" and kind and kind != "object":
        yield _invalid((path, "type"), kind, "must be object at the root")
    if node.place == "root" and schema.get("additionalProperties") is not None:
        yield _forbidden((path, "additionalProperties"), "must not be used at the root")
    if kind == "array" and not schema.get("items") and schema.get("items") != {}:
        yield _required((path, "items"), "must be specified")
    if schema.get("default") is not None and node.no_default:
        yield _forbidden((path, "default"), f"must not be set {node.no_default}")


def _extensions(node: Node) -> Iterator[FieldError]:
    schema, path, kind = node.schema, node.path, node.schema.get("type")
    if schema.get(_KEEP) is False:
        yield _invalid((path, _KEEP), False, "must be true or undefined")
    for keyword in (_KEEP, _EMBEDDED):
        if schema.get(_INT_OR_STRING) and schema.get(keyword):
            yield _invalid((path, keyword), True, f"must be false if {_INT_OR_STRING} is true")
    if (map_type := schema.get(_MAP_TYPE)) is not None:
        if kind != "object":
            yield _must_be(path, "object", f"if {_MAP_TYPE} is specified", kind)
        if map_type not in ("atomic", "granular"):
            yield _unsupported((path, _MAP_TYPE), map_type, ("atomic", "granular"))
    if schema.get(_EMBEDDED):
        if node.in_metadata:
            yield _forbidden((path, _EMBEDDED), "must not be used inside of resource meta")
        if schema.get("additionalProperties") is not None:
            yield _forbidden((path, "additionalProperties"), f"must not be used if {_EMBEDDED} is set")
        if not schema.get(_KEEP) and not _properties(schema):
            detail = f"must not be empty if {_EMBEDDED} is true without {_KEEP}"
            yield _required((path, "properties"), detail)


def _lists(schema: Schema, path: Path) -> Iterator[FieldError]:
    how, keys = schema.get(_LIST_TYPE), schema.get(_LIST_KEYS) or []
    if keys and how != "map":
        detail = f"must be map if {_LIST_KEYS} is non-empty"
        where = (path, _LIST_TYPE)
        yield _required(where, detail) if how is None else _invalid(where, how, detail)
    if how is None:
        return
    if schema.get("type") != "array":
        yield _must_be(path, "array", f"if {_LIST_TYPE} is specified", schema.get("type"))
    if how not in ("atomic", "set", "map"):
        yield _unsupported((path, _LIST_TYPE), how, ("atomic", "set", "map"))
    items = schema.get("items")
    item: Schema = items if isinstance(items, dict) else _NOTHING
    if how in ("set", "map") and item.get("nullable"):
        yield _forbidden(((path, "items"), "nullable"), f"cannot be nullable when {_LIST_TYPE} is {how}")
    if how == "set":
        yield from _set_items(item, (path, "items"))
    elif how == "map":
        yield from _list_map(item, keys, path)


def _set_items(item: Schema, path: Path) -> Iterator[FieldError]:
    detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    if item.get("type") == "array" and item.get(_LIST_TYPE, "atomic") != "atomic":
        yield _invalid((path, _LIST_TYPE), item[_LIST_TYPE], detail)
    if item.get("type") == "object" and item.get(_MAP_TYPE) != "atomic":
        yield _invalid((path, _MAP_TYPE), item.get(_MAP_TYPE), detail)


def _list_map(item: Schema, keys: list[Any], path: Path) -> Iterator[FieldError]:
    if not keys:
        yield _required((path, _LIST_KEYS), f"must not be empty if {_LIST_TYPE} is map")
    if not item:
        yield _required((path, "items"), f"must have a schema if {_LIST_TYPE} is map")
        return
    if item.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        yield _invalid(((path, "items"), "type"), item.get("type", ""), detail)
        return
    properties = _properties(item)
    for key in dict.fromkeys(key for key in keys if isinstance(key, str)):
        where: Path = ((((path, "items"), "properties")), MapKey(key))
        if isinstance(found := properties.get(key), dict):
            yield from _list_map_key(found, key in _strings(item.get("required")), where)
        else:
            yield _invalid((path, _LIST_KEYS), keys, "entries must all be names of item properties")
    if len(set(map(repr, keys))) < len(keys):
        yield _invalid((path, _LIST_KEYS), keys, "must not contain duplicate entries")


def _list_map_key(schema: Schema, is_required: bool, path: Path) -> Iterator[FieldError]:
    if (kind := schema.get("type")) in ("array", "object"):
        detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
        yield _invalid((path, "type"), kind, detail)
    if not is_required and schema.get("default") is None:
        detail = f"this property is in {_LIST_KEYS}, so it must have a default or be a required property"
        yield _required((path, "default"), detail)
    if schema.get("nullable"):
        detail = f"this property is in {_LIST_KEYS}, so it cannot be nullable"
        yield _forbidden((path, "nullable"), detail)


def _metadata(node: Node) -> Iterator[FieldError]:
    if node.place != "root" and not node.schema.get(_EMBEDDED):
        return
    properties = _properties(node.schema)
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        found = properties.get(name)
        if isinstance(found, dict) and found.get("type") != wanted:
            where: Path = (((node.path, "properties"), MapKey(name)), "type")
            yield _invalid(where, found.get("type", ""), f"must be {wanted}")
    metadata = properties.get("metadata")
    if node.place == "root" and isinstance(metadata, dict):
        more = metadata.keys() - {"type", "properties", "description", "title", "default"}
        if more or _properties(metadata).keys() - {"name", "generateName"}:
            detail = (
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            )
            yield _forbidden(((node.path, "properties"), MapKey("metadata")), detail)


def _undeclared(schema: Schema, path: Path) -> Iterator[FieldError]:
    """Fields and items that alternatives validate, but that the schema itself does not declare."""
    for keyword in LOGIC:
        branches = schema.get(keyword)
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield from _undeclared_in(branch, schema, ((path, keyword), index), path)
    yield from _undeclared_in(schema.get("not"), schema, (path, "not"), path)


def _undeclared_in(
    branch: Any, schema: Schema, branch_path: Path, path: Path, depth: int = 0
) -> Iterator[FieldError]:
    if not isinstance(branch, dict) or depth > _DEEPEST_LOGIC:
        return
    pairs: list[tuple[Any, Any, Path, Path]] = [
        (
            inner,
            _properties(schema).get(name),
            ((branch_path, "properties"), MapKey(name)),
            ((path, "properties"), MapKey(name)),
        )
        for name, inner in _properties(branch).items()
    ]
    if isinstance(branch.get("items"), dict):
        pairs.append((branch["items"], schema.get("items"), (branch_path, "items"), (path, "items")))
    for inner, declared, inner_path, declared_path in pairs:
        if isinstance(declared, dict):
            yield from _undeclared_in(inner, declared, inner_path, declared_path, depth + 1)
        else:
            yield _required(declared_path, f"because it is defined in {keyed(inner_path)}")
    for keyword in LOGIC:
        branches = branch.get(keyword)
        for index, inner in enumerate(branches if isinstance(branches, list) else ()):
            yield from _undeclared_in(inner, schema, ((branch_path, keyword), index), path, depth + 1)
    yield from _undeclared_in(branch.get("not"), schema, (branch_path, "not"), path, depth + 1)


_DEEPEST_LOGIC: Final = 50


def _properties(schema: Schema) -> Schema:
    found = schema.get("properties")
    return found if isinstance(found, dict) else _NOTHING


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _must_be(path: Path, wanted: str, condition: str, found: Any) -> FieldError:
    detail = f"must be {wanted} {condition}"
    return _invalid((path, "type"), found, detail) if found else _required((path, "type"), detail)


def _required(path: Path, detail: str) -> FieldError:
    return FieldError("FieldValueRequired", keyed(path), detail)


def _forbidden(path: Path, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", keyed(path), detail)


def _invalid(path: Path, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", keyed(path), detail, value)


def _unsupported(path: Path, value: object, allowed: tuple[str, ...]) -> FieldError:
    detail = "supported values: " + ", ".join(f'"{name}"' for name in allowed)
    return FieldError("FieldValueNotSupported", keyed(path), detail, value)
