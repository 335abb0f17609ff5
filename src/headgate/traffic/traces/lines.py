"""Parse the lines of a file into requests; errors are collected line by line and reported together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from headgate.traffic.traces.timed import TimedRequest

MAX_LINE_BYTES = 1 << 20
"""A prompt of a million tokens has 2,000 blocks of 512, which take some 20,000 bytes."""
MAX_PROBLEMS = 10
"""Reported per file; a file with more is in the wrong format."""
_LONGEST_SHOWN = 40


class Problem(msgspec.Struct, frozen=True):
    """An error in one line."""

    file: str
    line: int
    message: str
    field: str = ""
    fix: str = ""

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        fix = f"; {self.fix}" if self.fix else ""
        return f"{self.file}:{self.line}: {field}{self.message}{fix}"


class TraceError(ValueError):
    """A trace cannot be parsed; the message has one line for each problem."""

    def __init__(self, problems: list[Problem], *, more: bool = False) -> None:
        self.problems = problems
        told = [str(problem) for problem in problems]
        super().__init__("\n".join([*told, "... and more"] if more else told))


class LineError(ValueError):
    """One line does not conform to the format; with `is_last`, later lines cannot be checked."""

    def __init__(self, message: str, *, field: str = "", fix: str = "", is_last: bool = False) -> None:
        super().__init__(message)
        self.field = field
        self.fix = fix
        self.is_last = is_last


class LineReader(Protocol):
    """Reads the lines of one file in a format; may keep state, such as a heading."""

    def read(self, line: bytes) -> TimedRequest | None:
        """The request of a line, None if it has none; raises LineError."""


def requests(file: str, lines: Iterable[bytes], reader: LineReader) -> Iterator[TimedRequest]:
    """The requests of a file in the order of its lines, each not before the previous one.

    After the first error no request is yielded, but the rest is checked for more errors. Raises TraceError. A
    line longer than MAX_LINE_BYTES ends the file: callers need to pass at most one byte more of it.
    """
    problems: list[Problem] = []
    latest, found = 0.0, False
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE_BYTES:
            too_long = f"the line is longer than {MAX_LINE_BYTES} bytes"
            raise TraceError([*problems, Problem(file, number, too_long, fix="is this a trace?")])
        try:
            request = _read(line, reader, latest)
        except LineError as error:
            if len(problems) == MAX_PROBLEMS:
                raise TraceError(problems, more=True) from None
            problems.append(Problem(file, number, str(error), error.field, error.fix))
            if error.is_last:
                break
            continue
        if request is None:
            continue
        found, latest = True, request.at_s
        if not problems:
            yield request
    if not problems and not found:
        problems.append(Problem(file, 1, "has no requests"))
    if problems:
        raise TraceError(problems)


def shown(value: object) -> str:
    """A value for an error message: as JSON, shortened if long."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError, RecursionError):
        text = ascii(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _read(line: bytes, reader: LineReader, latest: float) -> TimedRequest | None:
    if not line.strip():
        return None
    request = reader.read(line)
    if request is not None and request.at_s < latest:
        raise LineError(
            f"the request comes {latest - request.at_s:g} s before one above", fix="sort the lines by time"
        )
    return request
