"""A document as a tree in which every key and value has its position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from headgate.cli.manifests.scalars import Value


class Position(NamedTuple):
    """Line and column of a character, both 1-based."""

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
    """Whether it is text because it is quoted or a block scalar, whatever it looks like."""
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
    """Total number of values, with aliases expanded."""
    depth: int
    """Nesting levels, including its own."""


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
    """Earlier entries of repeated keys; `entries` has the last."""


Node: TypeAlias = Scalar | Sequence | Mapping


def plain(node: Node) -> Any:
    """The tree as new dicts, lists and scalars; aliases become copies."""
    if isinstance(node, Mapping):
        return {key: plain(entry.value) for key, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value


_BRACKET_END = re.compile(r"\](?=[.\[]|$)")
_KEY_END = re.compile(r"[.\[]")
_INDEX = re.compile(r"\[(\d{1,9})\]")


class Place(NamedTuple):
    """The location in a document that a path leads to."""

    span: Span
    """Of the value; of its key if the value spans several lines or is missing."""
    steps: tuple[str | int, ...]
    """Keys and indexes as far as the document has them."""
    missing: str
    """The rest of the path, which the document does not have."""
    node: Node
    """The value at the end of `steps`."""
    key: Span | None
    """The key of that value; None for list items and for the document itself."""


def place_of(root: Node, path: str) -> Place:
    """The place of paths such as spec.rules[0].modelMatch.headers[x-user].exact or matchLabels.a.b/c.

    Keys may contain dots and brackets; the longest matching key is used.
    """
    node, steps, key, rest = root, [], None, path
    owner: Span | None = None
    while rest:
        found = _step(node, rest)
        if found is None:
            break
        step, node, key, rest = found
        owner = key or owner
        steps.append(step)
    return Place(_shown(node, key, owner, bool(rest)), tuple(steps), rest.lstrip("."), node, key)


def _step(node: Node, rest: str) -> tuple[str | int, Node, Span | None, str] | None:
    if isinstance(node, Sequence):
        index = _INDEX.match(rest)
        if index is None or int(index[1]) >= len(node.items):
            return None
        return int(index[1]), node.items[int(index[1])], None, rest[index.end() :]
    if not isinstance(node, Mapping):
        return None
    for name, after in _names(rest):
        if name in node.entries:
            entry = node.entries[name]
            return name, entry.value, entry.key, after
    return None


def _names(rest: str) -> Iterator[tuple[str, str]]:
    """Candidates for the next key, each with the rest of the path; longest first."""
    if rest.startswith("["):
        ends = [found.start() for found in _BRACKET_END.finditer(rest)]
        yield from ((rest[1:end], rest[end + 1 :]) for end in reversed(ends))
        return
    rest = rest.removeprefix(".")
    ends = [*(found.start() for found in _KEY_END.finditer(rest)), len(rest)]
    yield from ((rest[:end], rest[end:]) for end in reversed(ends))


def _shown(node: Node, key: Span | None, owner: Span | None, is_parent: bool) -> Span:
    """The span to point at: a value that fits on one line, or else the key above it."""
    if isinstance(node, Scalar):
        is_awkward = is_parent or node.span.start == node.span.end or _has_lines(node)
        return key if key and is_awkward else node.span
    is_short = node.is_flow and not _has_lines(node)
    if is_short and not (is_parent and key):
        return node.span
    return key or _first(node) or owner or node.span


def _has_lines(node: Node) -> bool:
    return node.span.start.line != node.span.end.line


def _first(node: Node) -> Span | None:
    """The first key of a mapping that is a list item or the document itself."""
    if isinstance(node, Mapping) and node.entries:
        return min(entry.key for entry in node.entries.values())
    return None
