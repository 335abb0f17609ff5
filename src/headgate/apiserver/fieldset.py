"""Sets of fields for server-side apply: the leaves of an object, and their fieldsV1 format.

A path is a tuple of fieldsV1 elements: `f:name` for a field, `k:{"name":"a"}` for the item of a keyed list,
`v:"x"` for a member of a set list. Any other list is a single leaf. The schema decides which it is.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

Path = tuple[str, ...]
Schema = dict[str, Any]

MISSING = object()
ITEM = object()
"""The existence of a keyed item, map or list: two items with the same key always agree on it."""


class Listing(NamedTuple):
    """How a list is merged: by keys, as a set (no keys), or as one value."""

    keys: tuple[str, ...] = ()
    is_set: bool = False


def child(schema: Schema, name: str) -> Schema:
    """The schema of a field; the empty schema for an unknown one."""
    found = schema.get("properties", {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def declared(schema: Schema) -> Listing:
    """How lists of this schema are merged, if their items allow it."""
    kind = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    if kind is None and "merge" in str(schema.get("x-kubernetes-patch-strategy", "")).split(","):
        key = schema.get("x-kubernetes-patch-merge-key")
        kind, keys = ("map", (key,)) if key else ("set", ())
    return Listing(keys if kind == "map" else (), is_set=kind == "set")


def listing(schema: Schema, items: list[Any]) -> Listing:
    """How these items are merged; a list with missing or duplicate keys is one value."""
    how = declared(schema)
    if how.is_set and (_is_atomic(schema.get("items")) or not _are_composed(items)):
        return how
    if how.keys and all(isinstance(item, dict) for item in items):
        elements = [item_element(item, how.keys, schema) for item in items]
        if None not in elements and len(set(elements)) == len(elements):
            return how
    return Listing()


def _is_atomic(items: Any) -> bool:
    """Whether the members of a set are atomic objects or lists, so that each is one value."""
    if not isinstance(items, dict):
        return False
    is_list = items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") == "atomic"
    return is_list or items.get("x-kubernetes-map-type") == "atomic"


def _are_composed(items: list[Any]) -> bool:
    return any(isinstance(item, dict | list) for item in items)


def member_element(member: Any) -> str:
    """The `v:` element of a set member; the order of fields makes no difference."""
    return "v:" + msgspec.json.encode(member, order="deterministic").decode()


def item_element(item: dict[str, Any], keys: tuple[str, ...], schema: Schema) -> str | None:
    """The `k:` element of a keyed item; missing keys use their defaults."""
    found = {}
    for key in sorted(keys) if len(keys) > 1 else keys:
        value = item[key] if key in item else _default_of(key, schema)
        if value is None:
            return None
        found[key] = value
    return "k:" + _encoder.encode(found).decode()


_encoder = msgspec.json.Encoder()


def _default_of(key: str, schema: Schema) -> Any:
    return schema.get("items", {}).get("properties", {}).get(key, {}).get("default")


def leaves(
    value: Any, schema: Schema, path: Path = (), *, composed: bool = False
) -> Iterator[tuple[Path, Any]]:
    """Every leaf of a value with its path; a keyed item is a leaf itself, besides its contents.

    `composed`: maps and lists with contents are yielded too. An update owns them, an apply does not.
    """
    if isinstance(value, dict) and value and schema.get("x-kubernetes-map-type") != "atomic":
        if composed:
            yield path, ITEM
        for name, inner in value.items():
            yield from leaves(inner, child(schema, name), (*path, f"f:{name}"), composed=composed)
    elif isinstance(value, list) and value:
        yield from _list_leaves(value, schema, path, composed=composed)
    else:
        yield path, value


def _list_leaves(
    items: list[Any], schema: Schema, path: Path, *, composed: bool
) -> Iterator[tuple[Path, Any]]:
    how = listing(schema, items)
    if composed and (how.is_set or how.keys):
        yield path, ITEM
    if how.is_set:
        for item in items:
            yield (*path, member_element(item)), item
    elif how.keys:
        for item in items:
            at = (*path, item_element(item, how.keys, schema) or "")
            yield at, ITEM
            yield from leaves(item, schema.get("items", {}), at, composed=composed)
    else:
        yield path, items


def merge(live: Any, applied: Any, schema: Schema) -> Any:
    """Merge `applied` into `live`. Neither is modified."""
    if (
        isinstance(live, dict)
        and isinstance(applied, dict)
        and schema.get("x-kubernetes-map-type") != "atomic"
    ):
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = merge(live.get(name), value, child(schema, name))
        return merged
    if isinstance(live, list) and isinstance(applied, list):
        return _merge_lists(live, applied, schema)
    return applied


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    how = listing(schema, live)
    if how != listing(schema, applied):
        return applied
    if how.is_set:
        members = {member_element(item): item for item in applied}
        return _in_order([(member_element(item), item) for item in live], members)
    if not how.keys:
        return applied
    present = [(item_element(item, how.keys, schema), item) for item in live]
    by_element = dict(present)
    merged = {}
    for item in applied:
        element = item_element(item, how.keys, schema)
        is_new = element not in by_element
        merged[element] = item if is_new else merge(by_element[element], item, schema.get("items", {}))
    return _in_order(present, merged)


def _in_order(live: list[tuple[Any, Any]], applied: dict[Any, Any]) -> list[Any]:
    """The items of both, as Kubernetes orders them: those of `applied` in its order, and the others in their
    place between those that both have in the same order."""
    present = {element for element, _ in live}
    shared = collections.deque(element for element in applied if element in present)
    rest = iter(applied.items())
    found = []
    for element, item in live:
        if element not in applied:
            found.append(item)
        elif shared and element == shared[0]:
            shared.popleft()
            for each, wanted in rest:
                found.append(wanted)
                if each == element:
                    break
    return found + [wanted for _, wanted in rest]


def remove(value: Any, gone: set[Path], schema: Schema, path: Path = ()) -> Any:
    """The value without the paths in `gone`; anything that becomes empty is removed too (MISSING)."""
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
    if path in gone and (is_atomic or not (isinstance(value, dict) and value)):
        return MISSING
    if isinstance(value, dict) and not is_atomic:
        kept = {n: remove(v, gone, child(schema, n), (*path, f"f:{n}")) for n, v in value.items()}
        kept = {name: inner for name, inner in kept.items() if inner is not MISSING}
        return MISSING if value and not kept and path else kept
    if isinstance(value, list) and value:
        return _remove_items(value, gone, schema, path)
    return value


def _remove_items(items: list[Any], gone: set[Path], schema: Schema, path: Path) -> Any:
    how = listing(schema, items)
    kept = []
    for item in items:
        if how.is_set:
            left = MISSING if (*path, member_element(item)) in gone else item
        elif how.keys:
            at = (*path, item_element(item, how.keys, schema) or "")
            # Never remove the keys of an item that stays.
            keys = {(*at, f"f:{key}") for key in how.keys}
            left = MISSING if at in gone else remove(item, gone - keys, schema.get("items", {}), at)
        else:
            left = item
        if left is not MISSING:
            kept.append(left)
    return kept or MISSING


def encode(paths: Iterable[Path]) -> dict[str, Any]:
    """fieldsV1: a tree of elements, `.` for a path that is a member itself and has members below it."""
    members = sorted(paths)
    tree: dict[str, Any] = {}
    nodes = []
    for path in members:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        nodes.append(node)
    for node in nodes:
        if node:
            node["."] = {}
    return tree


def decode(tree: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of a fieldsV1 tree; anything that is not a tree has none."""
    if not isinstance(tree, dict):
        return
    if path and (not tree or "." in tree):
        yield path
    for element, inner in tree.items():
        if element != ".":
            yield from decode(inner, (*path, element))


def shown(path: Path) -> str:
    """A path as Kubernetes prints it in a conflict: .spec.containers[name="a"].image"""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = msgspec.json.decode(rest)
            text += "[" + ",".join(f"{k}={msgspec.json.encode(v).decode()}" for k, v in keys.items()) + "]"
        else:
            text += f"[={rest}]"
    return text
