"""Parse one document into a tree, with limits on the cost of hostile input.

libyaml parses, event by event. Aliases share their subtree, so an alias bomb costs nothing; its expanded size
is counted, and rejected before anything is copied.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from headgate.cli.manifests import scalars
from headgate.cli.manifests.nodes import Entry, Mapping, Node, Position, Scalar, Sequence, Span

MAX_DEPTH = 100
MAX_VALUES = 500_000
"""In one document. Even the largest list that people apply at once has far fewer."""
MAX_ALIASED_VALUES = 100_000
MAX_PROBLEMS = 100

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Problem:
    """A problem in the text, and how to fix it."""

    span: Span
    message: str
    suggestion: str = ""


class Unreadable(Exception):  # noqa: N818 - reads as what it says
    """Parsing of the document cannot continue; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def compose(text: str, first_line: int = 1, first_column: int = 1) -> tuple[Node | None, list[Problem]]:
    """Return the tree of a text with at most one document (None if empty), and its minor problems.

    Minor problems, such as a duplicate key, leave a tree that can still be validated. `first_line` and
    `first_column` are the position of the text in its file. Raises Unreadable.
    """
    composer = _Composer(text, first_line, first_column)
    try:
        return composer.document(), composer.problems
    except yaml.YAMLError as error:
        raise Unreadable(composer.problem_of(error)) from error


class _Composer:
    def __init__(self, text: str, first_line: int, first_column: int) -> None:
        self._text = text
        self._first_line = first_line
        self._first_column = first_column
        self._anchors: dict[str, Node | None] = {}
        """By name; None until the anchored value is complete."""
        self._values = 0
        self._aliased = 0
        self.problems: list[Problem] = []

    def document(self) -> Node | None:
        self._events = yaml.parse(self._text, Loader=yaml.CLoader)
        root: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                root = self._node(next(self._events), 1)
        return root

    # -- values

    def _node(self, event: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        self._values += 1
        if self._values > MAX_VALUES:
            self._refuse(event, f"has more than {MAX_VALUES} values", "split it into several documents")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = None
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            node = self._mapping(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any, depth: int) -> Node:
        if event.anchor not in self._anchors:
            self._refuse(event, f'no anchor "{event.anchor}" before this alias')
        node = self._anchors[event.anchor]
        if node is None:
            self._refuse(event, f'anchor "{event.anchor}" contains itself')
        self._aliased += node.size
        if self._aliased > MAX_ALIASED_VALUES:
            self._refuse(
                event, f"its aliases expand to more than {MAX_ALIASED_VALUES} values", "write it out"
            )
        if depth + node.depth > MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        return node

    def _scalar(self, event: Any) -> Scalar:
        span = self._span(event)
        is_quoted = not event.implicit[0] if event.tag is None else event.style not in (None, "")
        try:
            if event.tag not in (None, "!"):
                value = self._tagged(event)
            else:
                value = event.value if is_quoted or event.tag == "!" else scalars.resolve(event.value)
        except scalars.NotJson:
            self._report(span, f"{event.value} is a number that JSON cannot represent")
            value = event.value
        return Scalar(value, span, is_quoted, event.value)

    def _tagged(self, event: Any) -> scalars.Value:
        """The value of a scalar with an explicit tag, such as !!str 5."""
        tag, text = event.tag.removeprefix(_TAG), event.value
        try:
            match tag:
                case "str":
                    return str(text)
                case "int" | "float" | "bool" | "null":
                    return scalars.resolve(text)
                case "timestamp":
                    return str(text)
                case "binary":
                    return base64.b64decode(text, validate=False).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            self._report(self._span(event), f"is not base64-encoded text: {error}")
            return str(text)
        self._report(self._span(event), f"tag {event.tag} is not supported", "remove the tag")
        return str(text)

    def _sequence(self, start: Any, depth: int) -> Sequence:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        size = 1 + sum(item.size for item in items)
        return Sequence(items, self._around(start, event), bool(start.flow_style), size, _depth(items))

    def _mapping(self, start: Any, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        replaced: list[tuple[str, Entry]] = []
        merged: list[Mapping] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            if isinstance(key, Scalar) and key.text == "<<" and not key.is_quoted:
                merged += self._merged(value)
            else:
                self._enter(entries, replaced, key, value)
        for other in merged:
            for name, entry in other.entries.items():
                entries.setdefault(name, entry)
        values = [entry.value for entry in entries.values()]
        size = 1 + sum(value.size for value in values)
        around = self._around(start, event)
        return Mapping(entries, around, bool(start.flow_style), size, _depth(values), tuple(replaced))

    def _enter(
        self, entries: dict[str, Entry], replaced: list[tuple[str, Entry]], key: Node, value: Node
    ) -> None:
        if not isinstance(key, Scalar):
            self._report(key.span, "a key must be text, not a list or a mapping")
            return
        name = _key(key)
        if name in entries:
            first = entries[name].key.start.line
            self._report(
                key.span, f'duplicate key "{name}", already on line {first}', "remove one of the two"
            )
            replaced.append((name, entries[name]))
        entries[name] = Entry(key.span, value)

    def _merged(self, value: Node) -> list[Mapping]:
        """The mappings that `<<` merges; the first takes precedence."""
        parts = value.items if isinstance(value, Sequence) else [value]
        if all(isinstance(part, Mapping) for part in parts):
            return [part for part in parts if isinstance(part, Mapping)]
        self._report(value.span, "<< takes a mapping, or a list of mappings")
        return []

    # -- places and problems

    def _position(self, line: int, column: int) -> Position:
        shift = self._first_column if line == 0 else 1
        return Position(self._first_line + line, column + shift)

    def _span(self, event: Any) -> Span:
        return self._around(event, event)

    def _around(self, start: Any, end: Any) -> Span:
        first, last = start.start_mark, end.end_mark
        return Span(self._position(first.line, first.column), self._position(last.line, last.column))

    def _report(self, span: Span, message: str, suggestion: str = "") -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(span, message, suggestion))

    def _refuse(self, event: Any, message: str, suggestion: str = "") -> NoReturn:
        raise Unreadable(Problem(self._span(event), message, suggestion))

    def problem_of(self, error: yaml.YAMLError) -> Problem:
        """A syntax error with its position and, for common mistakes, a fix."""
        if isinstance(error, yaml.reader.ReaderError):
            at = self._at_byte(error.position)
            character = f"U+{error.character:04X}" if isinstance(error.character, int) else "it"
            return Problem(Span(at, at), f"not YAML: {error.reason} ({character})", "remove the character")
        mark = getattr(error, "problem_mark", None)
        message = f"not YAML: {getattr(error, 'problem', None) or error}"
        context, context_mark = getattr(error, "context", None), getattr(error, "context_mark", None)
        if context and context_mark and context != "while scanning for the next token":
            begins = self._position(context_mark.line, context_mark.column)
            message += f" ({context} that begins in line {begins.line})"
        at = self._position(mark.line, mark.column) if mark else self._position(0, 0)
        return Problem(Span(at, at), message, self._remedy(message, mark))

    def _remedy(self, message: str, mark: Any) -> str:
        lines = self._text.split("\n")
        line = lines[mark.line] if mark and mark.line < len(lines) else ""
        if "cannot start any token" in message:
            found = line[mark.column : mark.column + 1]
            if found == "\t":
                return "YAML is indented with spaces: replace the tab"
            return f"quote text that begins with {found}"
        if "mapping values are not allowed" in message:
            return "quote text that contains a colon and a space, or check the indentation"
        if "end of stream" in message and "quoted scalar" in message:
            return "close the quotes"
        return ""

    def _at_byte(self, offset: int) -> Position:
        before = self._text.encode(errors="surrogatepass")[:offset].decode(errors="replace")
        return self._position(before.count("\n"), len(before) - before.rfind("\n") - 1)


def _depth(children: list[Node]) -> int:
    return 1 + max((child.depth for child in children), default=0)


def _key(key: Scalar) -> str:
    """A key as in JSON, where every key is text."""
    match key.value:
        case str(text):
            return text
        case None:
            return "null"
        case bool(truth):
            return "true" if truth else "false"
        case number:
            return str(number)
