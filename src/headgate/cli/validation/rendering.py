"""Print findings as text in the style of compilers, as JSON, or as GitHub annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec
from rich.cells import cell_len

from headgate.cli.manifests import Span
from headgate.cli.validation.findings import Finding

Lines = dict[str, list[str]]
"""The lines of each file."""

_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}
_MAX_SHOWN = 1000
_WIDEST = 160
"""Longer lines are cut around the marked part."""


def render(output: str, findings: list[Finding], lines: Lines, objects: int | None = None) -> Iterator[str]:
    """All findings in one of FORMATS, ordered by location; `objects` is how many were checked, None omits the
    summary.

    Yields pieces that are printed one by one, so that a closed pipe ends the output.
    """
    ordered = sorted(findings, key=lambda finding: finding.order)
    return FORMATS[output](ordered, lines, objects)


def paragraphs(findings: list[Finding], lines: Lines) -> str:
    """All findings as text, without a summary."""
    return "\n".join(render("text", findings, lines)).rstrip("\n")


def summary(findings: Iterable[Finding], objects: int, files: int) -> str:
    """One line: "3 objects in 2 files: 1 error, 2 warnings"."""
    counts: Counter[str] = Counter(finding.severity for finding in findings)
    told = [_count(counts[severity], severity) for severity in _COLORS if counts[severity]]
    return f"{_count(objects, 'object')} in {_count(files, 'file')}: {', '.join(told) or 'valid'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# -- text


def _text(findings: list[Finding], lines: Lines, objects: int | None) -> Iterator[str]:
    for finding in findings[:_MAX_SHOWN]:
        yield "\n".join([*_paragraph(finding, lines.get(finding.file, [])), ""])
    if len(findings) > _MAX_SHOWN:
        yield f"... and {len(findings) - _MAX_SHOWN} more\n"
    if objects is not None:
        yield summary(findings, objects, len(lines))


def line(finding: Finding) -> str:
    """A finding without its excerpt, the fix after the message."""
    said = _said(finding)
    return f"{said}; {_printable(finding.suggestion)}" if finding.suggestion else said


def _said(finding: Finding) -> str:
    severity = click.style(finding.severity, fg=_COLORS[finding.severity], bold=True)
    said = [_printable(part) for part in (finding.object, finding.path, finding.message) if part]
    return f"{_place(finding)}: {severity}: {': '.join(said)}"


def _paragraph(finding: Finding, lines: list[str]) -> list[str]:
    shown = [_said(finding)]
    if finding.span and (finding.path or not finding.object):
        shown += _excerpt(finding.span, lines)
    if finding.suggestion:
        shown.append(f"  {click.style('fix', fg='green', bold=True)}: {_printable(finding.suggestion)}")
    return shown


def _place(finding: Finding) -> str:
    if finding.span is None:
        return _printable(finding.file)
    return f"{_printable(finding.file)}:{finding.span.start.line}:{finding.span.start.column}"


def _excerpt(span: Span, lines: list[str]) -> list[str]:
    """The line, with carets below the value."""
    number, column = span.start
    if not 0 < number <= len(lines):
        return []
    line = lines[number - 1]
    end = span.end.column if span.end.line == number else len(line) + 1
    start = column - 1
    cut = max(0, start - _WIDEST // 2) if len(line) > _WIDEST else 0
    text = _printable(line[cut : cut + _WIDEST])
    width = max(1, cell_len(_printable(line[start : min(end - 1, cut + _WIDEST)])))
    margin = f"{number:>5} | "
    pointer = " " * cell_len(_printable(line[cut:start])) + "^" * width
    return [f"{margin}{text}".rstrip(), f"{' ' * 5} | {pointer}"]


def _printable(text: str) -> str:
    """Without characters that control a terminal: files may contain anything."""
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == "\t":
        return "    "
    return character if character.isprintable() else f"\\x{ord(character):02x}"


# -- json


def _json(findings: list[Finding], lines: Lines, objects: int | None) -> Iterator[str]:
    rows: list[dict[str, Any]] = [
        {
            "file": finding.file,
            "line": finding.span.start.line if finding.span else None,
            "column": finding.span.start.column if finding.span else None,
            "object": finding.object,
            "path": finding.path,
            "severity": finding.severity,
            "message": finding.message,
            "suggestion": finding.suggestion,
        }
        for finding in findings
    ]
    yield msgspec.json.format(msgspec.json.encode(rows)).decode()


# -- github


def _github(findings: list[Finding], lines: Lines, objects: int | None) -> Iterator[str]:
    """Workflow commands, which GitHub shows at the lines of a pull request."""
    yield from (_command(finding) for finding in findings)
    if objects is not None:
        yield summary(findings, objects, len(lines))


def _command(finding: Finding) -> str:
    level = "notice" if finding.severity == "note" else finding.severity
    place = f"file={_property(finding.file)}"
    if finding.span:
        place += f",line={finding.span.start.line},col={finding.span.start.column}"
    said = ": ".join(part for part in (finding.object, finding.path, finding.message) if part)
    text = f"{said}; {finding.suggestion}" if finding.suggestion else said
    return f"::{level} {place}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS: dict[str, Callable[[list[Finding], Lines, int | None], Iterator[str]]] = {
    "text": _text,
    "json": _json,
    "github": _github,
}
