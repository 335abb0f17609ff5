"""Trees of objects that are not from a file, for the checks that point at positions."""

from __future__ import annotations

from typing import Any

from headgate.cli.manifests import Entry, Mapping, Node, Position, Scalar, Sequence, Span

_NOWHERE = Span(Position(0, 0), Position(0, 0))


def tree_of(content: dict[str, Any]) -> Mapping:
    """The tree of an object, without positions."""
    tree = _tree(content)
    assert isinstance(tree, Mapping)
    return tree


def _tree(value: Any) -> Node:
    if isinstance(value, dict):
        entries = {str(key): Entry(_NOWHERE, _tree(inner)) for key, inner in value.items()}
        inner = [entry.value for entry in entries.values()]
        return Mapping(entries, _NOWHERE, False, _size(inner), _depth(inner))
    if isinstance(value, list):
        items = [_tree(each) for each in value]
        return Sequence(items, _NOWHERE, False, _size(items), _depth(items))
    return Scalar(value, _NOWHERE, isinstance(value, str), str(value))


def _size(inner: list[Node]) -> int:
    return 1 + sum(each.size for each in inner)


def _depth(inner: list[Node]) -> int:
    return 1 + max((each.depth for each in inner), default=0)
