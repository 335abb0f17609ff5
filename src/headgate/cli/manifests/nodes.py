"""A document as a tree in which every key and value knows where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from headgate.cli.manifests.scalars import Value


class Position(NamedTuple):
    """Line and column of a character, both from 1."""

    line: int
    column: int


class Span(NamedTuple):
    """From the first character to the one after the last."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Scalar:
    value: Value
    span: Span
    is_quoted: bool
    """Whether it is text by its quotes (or as a block), whatever it looks like."""
    text: str
    """As written, without the quotes."""
    size = 1
    depth = 1


@dataclass(frozen=True, slots=True)
class Sequence:
    items: list[Node]
    span: Span
    is_flow: bool
    """Written with brackets."""
    size: int
    """How many values it has in all once its aliases are replaced."""
    depth: int
    """Levels of nesting, its own included."""


class Entry(NamedTuple):
    """A key of a mapping, and its value."""

    key: Span
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    entries: dict[str, Entry]
    span: Span
    is_flow: bool
    size: int
    depth: int
    replaced: tuple[tuple[str, Entry], ...] = ()
    """Earlier entries of keys that occur again; `entries` has the last."""


Node: TypeAlias = Scalar | Sequence | Mapping


def plain(node: Node) -> Any:
    """The tree as dicts, lists and scalars, all of them new; aliases become copies."""
    if isinstance(node, Mapping):
        return {key: plain(entry.value) for key, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value
