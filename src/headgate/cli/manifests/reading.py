"""Read manifests from paths: each document separately, so that one error does not hide others."""

from __future__ import annotations

import codecs
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headgate.cli.manifests import composing
from headgate.cli.manifests.nodes import Mapping, Node, Position, Sequence, Span, plain

SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_FILES = 1000
MAX_DOCUMENTS = 10_000
"""In one file."""

_BINARY_BYTES = 8192
"""A file with a zero byte in this many leading bytes is binary, the rule that Git uses."""
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
"""Line breaks in YAML 1.1."""
_MARKER = re.compile(r"^---(?=[ \t\r\n]|$)", re.MULTILINE)
"""Begins a document, wherever it stands: not even quoted text may contain it at the start of a line."""
_DIRECTIVES_ONLY = re.compile(r"(?:[ \t]*(?:#.*|%.*)?(?:\n|$))*")
_ALL_LACKS = 3
"""apiVersion, kind and name."""
_PAIR = re.compile(r"\\\\|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


@dataclass(frozen=True)
class Problem:
    """A problem with a file, or with a position in it."""

    file: str
    span: Span | None
    message: str
    suggestion: str = ""

    @property
    def order(self) -> tuple[str, int, int]:
        """Sort key: file, line and column."""
        start = self.span.start if self.span is not None else Position(0, 0)
        return (self.file, start.line, start.column)

    def __str__(self) -> str:
        if self.span is None:
            return f"{self.file}: {self.message}"
        return f"{self.file}:{self.span.start.line}:{self.span.start.column}: {self.message}"


@dataclass(frozen=True)
class Manifest:
    """One object and where it was read."""

    file: str
    content: dict[str, Any]
    tree: Mapping

    @property
    def source(self) -> str:
        """File and line, as "routes.yaml:12"."""
        return f"{self.file}:{self.tree.span.start.line}"

    @property
    def kind(self) -> str:
        return str(self.content["kind"])


@dataclass
class Reading:
    """The contents of the files."""

    manifests: list[Manifest] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    bare: list[tuple[Problem, Manifest]] = field(default_factory=list)
    """Mappings with neither apiVersion nor kind, and so not objects, each with the problem to report."""
    lines: dict[str, list[str]] = field(default_factory=dict)
    """The text of each readable file, for excerpts."""


def read(paths: Iterable[str], *, recursive: bool = True) -> Reading:
    """Read all objects of files, of manifests in directories, and of standard input ("-")."""
    reading = Reading()
    for path in paths:
        try:
            files = _files(path, recursive)
        except OSError as error:
            reading.problems.append(Problem(path, None, error.strerror or str(error)))
            continue
        for file in files:
            try:
                _read_file(file, reading)
            except OSError as error:
                told = error.strerror or str(error)
                reading.problems.append(Problem(_label(file), None, told, _remedy(file)))
    return reading


def read_text(label: str, text: str) -> Reading:
    """Read the objects of a text that stands in no file; `label` names it in messages."""
    reading = Reading()
    _read_text(label, text, reading)
    return reading


def _read_file(file: str, reading: Reading) -> None:
    _read_text(_label(file), _text(file), reading)


def _read_text(label: str, text: str, reading: Reading) -> None:
    reading.lines[label] = _BREAK.split(text)
    for number, document in enumerate(_documents(text)):
        if number >= MAX_DOCUMENTS:
            raise OSError(None, f"has more than {MAX_DOCUMENTS} documents")
        _read_document(label, document, reading)


def read_document(path: str, text: str | None = None) -> tuple[Node | None, list[Problem], list[str]]:
    """Read a file that is not a manifest: the tree of its first document, its problems, and its lines.

    A second document is reported as a problem. With `text`, no file is read, and `path` only names it.
    """
    try:
        text = _text(path) if text is None else text
    except OSError as error:
        return None, [Problem(path, None, error.strerror or str(error))], []
    lines = _BREAK.split(text)
    documents = [document for document in _documents(text) if document.text.strip()]
    problems = []
    if len(documents) > 1:
        start = Position(documents[1].line, 1)
        span = Span(start, Position(start.line, 4))
        problems.append(Problem(path, span, "a second document: only one is allowed"))
    try:
        tree, found = composing.compose(*documents[0]) if documents else (None, [])
    except composing.Unreadable as error:
        tree, found = None, [error.problem]
    problems += [Problem(path, each.span, each.message, each.suggestion) for each in found]
    return tree, problems, lines


# -- texts


def _remedy(path: str) -> str:
    if path.startswith(("http://", "https://")):
        return f"URLs are not fetched; use: curl -sSL {path} | headgate ... -f -"
    return ""


def _label(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _files(path: str, recursive: bool) -> list[str]:
    """The file itself, or the manifests in a directory."""
    root = Path(path)
    if path == "-" or not root.is_dir():
        return [path]
    found = root.rglob("*") if recursive else root.glob("*")
    files = sorted(file for file in found if file.suffix in SUFFIXES and file.is_file())
    if len(files) > MAX_FILES:
        raise OSError(None, f"has more than {MAX_FILES} manifests")
    return [str(file) for file in files]


def _text(file: str) -> str:
    if file == "-":
        return _decoded(getattr(sys.stdin, "buffer", sys.stdin).read(MAX_FILE_BYTES + 1))
    with Path(file).open("rb") as stream:
        return _decoded(stream.read(MAX_FILE_BYTES + 1))


def _decoded(content: bytes | str) -> str:
    if len(content) > MAX_FILE_BYTES:
        raise OSError(None, f"is longer than {MAX_FILE_BYTES} bytes")
    if isinstance(content, str):
        return content
    if b"\0" in content[:_BINARY_BYTES] and not content.startswith(_UTF_16_MARKS):
        raise OSError(None, "this is not a text file: there is a zero byte near its start")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        where = (
            f"line {line}, byte {error.start} of the file, is 0x{content[error.start]:02x} ({error.reason})"
        )
        raise OSError(None, f"the file is not UTF-8: {where}; save it as UTF-8") from error


# -- documents


class _Document(NamedTuple):
    text: str
    line: int
    column: int


def _documents(text: str) -> Iterator[_Document]:
    """The documents of a text: YAML separated by markers, or consecutive JSON objects."""
    start, line, column = 0, 1, 1
    decoder = json.JSONDecoder()
    while match := re.compile(r"\s*(?=\{)").match(text, start):
        line, column = _after(text[start : match.end()], line, column)
        try:
            _, end = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            start = match.end()
            break
        document = text[match.end() : end]
        yield _Document(_PAIR.sub(_whole_character, document), line, column)
        line, column = _after(document, line, column)
        start = end
    yield from _between_markers(text[start:], line, column)


def _between_markers(text: str, line: int, column: int) -> Iterator[_Document]:
    starts = [0, *(marker.start() for marker in _MARKER.finditer(text) if marker.start()), len(text)]
    held = ""
    for start, end in itertools.pairwise(starts):
        held += text[start:end]
        if "%" in held and end < len(text) and _DIRECTIVES_ONLY.fullmatch(held):
            continue  # a directive belongs to the document after it
        yield _Document(held, line, column)
        line, column = _after(held, line, column)
        held = ""


def _after(text: str, line: int, column: int) -> tuple[int, int]:
    """The position after `text`, which starts at line and column."""
    breaks = [found.end() for found in _BREAK.finditer(text)]
    return (line + len(breaks), len(text) - breaks[-1] + 1) if breaks else (line, column + len(text))


def _whole_character(pair: re.Match[str]) -> str:
    """Decode a surrogate pair: JSON uses them for characters beyond 16 bits, YAML does not support them."""
    if pair[1] is None:
        return pair[0]
    return f"\\U{0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + int(pair[2], 16) - 0xDC00:08x}"


# -- objects


def _read_document(file: str, document: _Document, reading: Reading) -> None:
    try:
        tree, problems = composing.compose(*document)
    except composing.Unreadable as error:
        problem = error.problem
        reading.problems.append(Problem(file, problem.span, problem.message, problem.suggestion))
        return
    reading.problems += [Problem(file, each.span, each.message, each.suggestion) for each in problems]
    if tree is not None:
        _read_object(file, tree, reading)


def _read_object(file: str, tree: Node, reading: Reading) -> None:
    """Read the object itself, or those of a List."""
    if getattr(tree, "value", tree) is None:
        return
    if not isinstance(tree, Mapping):
        what = "a list" if isinstance(tree, Sequence) else "a single value"
        message = f"a manifest is a mapping with apiVersion, kind and metadata, not {what}"
        reading.problems.append(Problem(file, _first_character(tree), message))
        return
    content = plain(tree)
    items = tree.entries.get("items")
    if str(content.get("kind")).endswith("List") and items and isinstance(items.value, Sequence):
        for item in items.value.items:
            _read_object(file, item, reading)
    elif lacks := _lacks(content):
        problem = Problem(file, _first_character(tree), f"lacks {' and '.join(lacks)}")
        reading.problems.append(problem)
        if len(lacks) == _ALL_LACKS:
            reading.bare.append((problem, Manifest(file, content, tree)))
    else:
        reading.manifests.append(Manifest(file, content, tree))


def _lacks(content: dict[str, Any]) -> list[str]:
    """Missing required fields; if apiVersion or kind is missing, the name is required in the same message."""
    missing = [name for name in ("apiVersion", "kind") if not isinstance(content.get(name), str)]
    metadata = content.get("metadata")
    if missing and not (
        isinstance(metadata, dict) and (metadata.get("name") or metadata.get("generateName"))
    ):
        missing.append("metadata.name")
    return missing


def _first_character(tree: Node) -> Span:
    start = tree.span.start
    return Span(start, Position(start.line, start.column + 1))
