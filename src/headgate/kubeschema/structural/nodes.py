"""Iterates over every schema inside a schema, with its context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from headgate.kubeschema.structural.errors import MapKey, Path
from headgate.kubeschema.structural.shaping import MAX_DEPTH, Schema

__all__ = ["LOGIC", "Node", "has_rules", "nodes"]

LOGIC: Final = ("allOf", "anyOf", "oneOf")
"""Keywords with a list of alternatives; `not` has one."""

_METADATA = frozenset({"apiVersion", "kind", "metadata"})


class Node(msgspec.Struct, frozen=True):
    """One schema and its position."""

    schema: Schema
    path: Path
    depth: int = 0
    place: Literal["root", "field", "item"] = "root"
    is_nested: bool = False
    """Inside allOf, anyOf, oneOf or not, which validate a value and must not shape it."""
    in_metadata: bool = False
    """Inside apiVersion, kind or metadata of a resource."""
    no_default: str = ""
    """Why a default is not allowed here; empty if it is."""
    without_past: Path = None
    """The enclosing list or map whose parts cannot be matched with their old values on an update."""

    @property
    def is_too_deep(self) -> bool:
        return self.depth >= MAX_DEPTH


def nodes(schema: Any, path: Path = None) -> Iterator[Node]:
    """The schema and all schemas inside it, down to the first ones that are too deep."""
    pending = [Node(schema, path)] if isinstance(schema, dict) else []
    while pending:
        node = pending.pop()
        yield node
        if not node.is_too_deep:
            pending += [child for child in _children(node) if isinstance(child.schema, dict)]


def has_rules(schema: Schema) -> bool:
    """Whether any part of the schema has CEL rules."""
    return any("x-kubernetes-validations" in node.schema for node in nodes(schema))


def _children(node: Node) -> Iterator[Node]:
    schema, path = node.schema, node.path
    properties = schema.get("properties")
    for name, child in properties.items() if isinstance(properties, dict) else ():
        yield _property(node, name, child)
    yield _inside(node, schema.get("additionalProperties"), (path, "additionalProperties"), "field")
    yield _inside(node, schema.get("items"), (path, "items"), "item")
    yield _inside(node, schema.get("not"), (path, "not"), node.place, is_nested=True)
    for keyword in LOGIC:
        branches = schema.get(keyword)
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield _inside(node, branch, ((path, keyword), index), node.place, is_nested=True)


def _property(node: Node, name: str, schema: Any) -> Node:
    child = _inside(node, schema, ((node.path, "properties"), MapKey(name)), "field")
    is_root = node.place == "root" and not node.is_nested
    if name not in _METADATA or not (is_root or node.schema.get("x-kubernetes-embedded-resource")):
        return child
    no_default = f"in top-level {name}" if is_root else child.no_default
    return msgspec.structs.replace(child, in_metadata=True, no_default=no_default)


def _inside(
    node: Node,
    schema: Any,
    path: Path,
    place: Literal["root", "field", "item"],
    *,
    is_nested: bool = False,
) -> Node:
    no_default, without_past = node.no_default, node.without_past
    step = path[1] if path else ""
    if node.in_metadata and step == "additionalProperties":
        no_default = "inside additionalProperties applying to object metadata"
    is_list = step == "items" and node.schema.get("x-kubernetes-list-type") != "map"
    is_atomic = place == "field" and node.schema.get("x-kubernetes-map-type") == "atomic"
    if without_past is None and (is_list or is_atomic):
        without_past = node.path or (None, "")
    return Node(
        schema=schema,
        path=path,
        depth=node.depth + 1,
        place=place,
        is_nested=node.is_nested or is_nested,
        in_metadata=node.in_metadata,
        no_default=no_default,
        without_past=without_past,
    )
