"""Read a settings file with nested sections as a struct, and report every error with its location."""

from __future__ import annotations

import math
import types
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click
import msgspec

from headgate.cli import validation
from headgate.cli.manifests import Mapping, Node, Scalar, Sequence, Span, place_of, plain, read_document
from headgate.cli.validation import Finding
from headgate.cli.validation.spelling import closest
from headgate.kubeschema import duration

Struct = TypeVar("Struct", bound=msgspec.Struct)


class SettingErrors(ValueError):  # noqa: N818 - reads as what it says
    """All errors in a file, or in what is built from it."""

    def __init__(self, findings: list[Finding], lines: validation.Lines) -> None:
        super().__init__("\n".join(click.unstyle(validation.line(finding)) for finding in findings))
        self.findings = findings
        self.lines = lines

    def shown(self) -> str:
        """Compiler-style output: each error with the line that it is about."""
        return validation.paragraphs(self.findings, self.lines)


class Document:
    """One file while it is read: its tree and its errors."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self._tree, problems, lines = read_document(file)
        self.lines: validation.Lines = {file: lines}
        self.findings += [validation.of_problem(problem) for problem in problems]

    def read(self, kind: type[Struct]) -> Struct:
        """The whole document as a struct of this kind; raises SettingErrors with all errors."""
        if self._tree is None or getattr(self._tree, "value", self._tree) is None:
            if not self.findings:
                self.report("", f"is empty; it needs {', '.join(_required(kind))}")
            raise self.errors()
        read = self._struct(self._tree, kind, "")
        if self.findings or read is None:
            raise self.errors()
        return read

    def plain(self) -> object:
        """The plain content, for callers that validate it; raises SettingErrors if it is not YAML."""
        if self.findings:
            raise self.errors()
        return None if self._tree is None else plain(self._tree)

    def report(self, path: str, message: str, fix: str = "", *, span: Span | None = None) -> None:
        """Report an error in the field at `path`, which is located in the text."""
        if span is None and self._tree is not None:
            span = place_of(self._tree, path).span
        self.findings.append(
            Finding(file=self.file, severity="error", message=message, span=span, path=path, suggestion=fix)
        )

    def errors(self) -> SettingErrors:
        return SettingErrors(self.findings, self.lines)

    # -- values

    def _struct(self, node: Node, kind: type[Struct], path: str) -> Struct | None:
        """None if it contains an error, which has been reported."""
        if not isinstance(node, Mapping):
            names = ", ".join(kind.__struct_fields__)
            self.report(path, f"must be a mapping with fields of {names}", span=node.span)
            return None
        before = len(self.findings)
        hints = get_type_hints(kind, include_extras=True)
        given: dict[str, Any] = {}
        for name, entry in node.entries.items():
            if name not in hints:
                self._unknown(f"{path}.{name}" if path else name, name, list(hints), entry.key)
            elif plain(entry.value) is not None:
                given[name] = self._value(entry.value, hints[name], f"{path}.{name}" if path else name)
        for name in _required(kind):
            if name not in given:
                self.report(path, f"lacks {name}", f"it is {wanted(*bare(hints[name]))}", span=_start(node))
        return kind(**given) if len(self.findings) == before else None

    def _value(self, node: Node, hint: Any, path: str) -> Any:
        kind, marks = bare(hint)
        marks["duration"] = marks.get("duration") or (
            kind is float and path.endswith("_s") and not path.endswith("_per_s")
        )
        item = get_args(kind)[0] if get_origin(kind) is list else None
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._struct(node, kind, path)
        if item is not None and _is_struct(item):
            if isinstance(node, Sequence):
                return [self._struct(each, item, f"{path}[{n}]") for n, each in enumerate(node.items)]
            self.report(path, f"must be a list of mappings with {', '.join(item.__struct_fields__)}")
            return None
        value = node.text if kind is str and isinstance(node, Scalar) else plain(node)
        try:
            return convert(value, hint, marks)
        except ValueError as error:
            choices = [str(each) for each in get_args(kind)] if get_origin(kind) is Literal else []
            near = closest(value, choices) if isinstance(value, str) and choices else None
            self.report(path, str(error), f"did you mean {near}?" if near else "")
            return None

    def _unknown(self, path: str, name: str, known: list[str], span: Span) -> None:
        near = closest(name.replace("-", "_"), known)
        fix = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
        self.report(path, "unknown field", fix, span=span)


def convert(value: object, hint: Any, marks: dict[str, Any]) -> Any:
    """Convert the value to the field's type; raises ValueError that describes the expected value.

    Seconds, which are marked or whose names end with _s, may also be written as 90s or 1m30s.
    """
    given = value
    if marks.get("duration") and isinstance(value, str):
        try:
            given = duration.parse(value)
        except duration.DurationError:
            given = value
    try:
        converted = msgspec.convert(given, hint)
    except msgspec.ValidationError:
        raise ValueError(f"{_shown(value)} is not {wanted(bare(hint)[0], marks)}") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ValueError(f"{_shown(value)} is not {wanted(bare(hint)[0], marks)}")
    return converted


def wanted(kind: Any, marks: dict[str, Any]) -> str:
    """Describe the values that a field accepts."""
    if marks.get("duration"):
        return "a time such as 2s or 1m30s"
    if get_origin(kind) is Literal:
        *most, last = (str(each) for each in get_args(kind))
        return f"{', '.join(most)} or {last}"
    if get_origin(kind) is dict:
        return f"a mapping from names to {'texts' if get_args(kind)[1] is str else 'numbers'}"
    if get_origin(kind) is list:
        return "a list" if _is_struct(get_args(kind)[0]) else "a list of texts"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return f"{names.get(kind, 'a mapping')}{_bounds(marks)}"


def _bounds(marks: dict[str, Any]) -> str:
    least, most = marks.get("ge"), marks.get("le")
    if least is not None and most is not None:
        return f" from {_plain(least)} to {_plain(most)}"
    return f" of at least {_plain(least)}" if least is not None else ""


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def bare(hint: Any) -> tuple[Any, dict[str, Any]]:
    """A type without None and annotations, and the annotations."""
    marks: dict[str, Any] = {}
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is Annotated:
        hint, *metas = get_args(hint)
        for meta in metas:
            marks |= {"ge": meta.ge, "le": meta.le, **(meta.extra or {})}
    return hint, marks


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _required(kind: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


def _start(node: Node) -> Span:
    start = node.span.start
    return Span(start, start._replace(column=start.column + 1))


def _shown(value: object) -> str:
    return f"{msgspec.json.encode(value).decode():.64}"
