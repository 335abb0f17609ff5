"""A metrics page in Prometheus' text form, in which a few families are looked up by name.

A parser of all of it takes tens of milliseconds for the page of a real engine, of which a handful of lines is
wanted. Those are found by their name, and only they are parsed. The page comes from the network: whatever it
contains, a look-up ends, in time that grows with its size and not faster.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

MAX_LINES = 4096
"""So many lines of one family are looked at: more is no engine."""
MAX_LINE_BYTES = 64 * 1024

# Nothing in these is tried twice: the time that a line takes grows with its length, and not with the square.
_SAMPLE = re.compile(rb'[ \t]*+(?:\{((?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+)\}[ \t]*+)?([^ \t{]\S*+)')
"""What follows the name of a sample: its labels, and its value."""
_LABEL = re.compile(rb'(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]++|\\.)*+)"')
_ESCAPE = re.compile(rb'\\([\\"n])')
_NAME_ENDS = b" \t{"


class Sample(NamedTuple):
    """One line: the labels as they stand in it, and its value, which is NaN where it cannot be read."""

    raw_labels: bytes
    value: float

    @property
    def labels(self) -> Mapping[str, str]:
        return _labels(self.raw_labels)


class Page:
    """The text of a page."""

    def __init__(self, text: bytes) -> None:
        self._text = b"\n" + text + b"\n"
        """Every line has an end before it and behind it."""

    def samples(self, name: str) -> list[Sample]:
        """The samples of exactly this name, in their order; none if there are more than a page may have.

        The format has all lines of a family in one piece, behind its comments: the search ends with the
        first comment after a sample.
        """
        text, found = self._text, []
        needle = b"\n" + name.encode()
        stop = len(text)
        at = text.find(needle)
        lines = 0
        while at >= 0:
            lines += 1
            if lines > MAX_LINES:
                return []
            begin = at + len(needle)
            end = text.find(b"\n", begin)
            if text[begin] in _NAME_ENDS:
                found.append(_sample(text, begin, end))
                if len(found) == 1:
                    comment = text.find(b"\n#", end)
                    stop = comment if comment >= 0 else stop
            at = text.find(needle, end, stop)
        return found


def _sample(text: bytes, begin: int, end: int) -> Sample:
    matched = _SAMPLE.match(text, begin, end) if end - begin <= MAX_LINE_BYTES else None
    if matched is None:
        return Sample(b"", math.nan)
    labels, value = matched.groups(b"")
    try:
        return Sample(labels, float(value) if b"_" not in value else math.nan)
    except ValueError:
        return Sample(labels, math.nan)


@functools.lru_cache(maxsize=256)
def _labels(raw: bytes) -> Mapping[str, str]:
    """The same lines come again with every page."""
    return {
        key.decode(): _ESCAPE.sub(_unescaped, value).decode(errors="replace")
        for key, value in _LABEL.findall(raw)
    }


def _unescaped(escape: re.Match[bytes]) -> bytes:
    character = escape[1]
    return b"\n" if character == b"n" else character
