"""Looks up a few families by name in a metrics page in Prometheus' text format.

A full parser takes tens of milliseconds for the page of a real engine, of which only a few lines are needed.
Those are found by their name, and only they are parsed. The page is untrusted: whatever it contains, a lookup
ends in time linear in its size.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

MAX_LINES = 2048
"""Lines of a page to parse, over all families: no engine has more."""
MAX_LINE_BYTES = 64 * 1024
MAX_KIND_BYTES = 32
"""Of the type of a family."""
REMEMBERED_BYTES = 1024
"""Limit of a line's labels for caching; longer ones are parsed each time."""
MAX_LABEL_BYTES = 128 * 1024
"""Labels of all these lines together. They take 90 ns a byte, and with the lines about 25 ms at worst."""

# These patterns do not backtrack: the time per line is linear in its length, not quadratic.
_SAMPLE = re.compile(rb'[ \t]*+(?:\{((?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+)\}[ \t]*+)?([^ \t{]\S*+)')
"""The part after the name of a sample: its labels, and its value."""
_LABEL = re.compile(rb'(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]++|\\.)*+)"')
_ESCAPE = re.compile(rb'\\([\\"n])')
_NAME_ENDS = b" \t{"


class PageTooLargeError(ValueError):
    """A page has more lines or labels of the requested families than any engine's."""


class Sample(NamedTuple):
    """One line: its raw labels, and its value, which is NaN if unreadable."""

    raw_labels: bytes
    value: float

    @property
    def labels(self) -> Mapping[str, str]:
        read = _labels if len(self.raw_labels) <= REMEMBERED_BYTES else _labels.__wrapped__
        return read(self.raw_labels)


class Page:
    """The text of a page."""

    def __init__(self, text: bytes) -> None:
        self._text = b"\n" + text + b"\n"
        """Every line has a newline before and after it."""
        self._lines_left = MAX_LINES
        self._labels_left = MAX_LABEL_BYTES

    def kind(self, name: str) -> str:
        """The declared type of a family, such as "counter"; empty if the page declares none."""
        needle = b"\n# TYPE %b " % name.encode()
        at = self._text.find(needle)
        if at < 0:
            return ""
        begin = at + len(needle)
        kind = self._text[begin : min(self._text.find(b"\n", begin), begin + MAX_KIND_BYTES)]
        return kind.decode("latin-1").strip()

    def samples(self, name: str) -> list[Sample]:
        """The samples of exactly this name, in order. Raises PageTooLargeError.

        In the format, all lines of a family are contiguous, after its comments: the search ends with the
        first comment after a sample.
        """
        text, found = self._text, []
        needle = b"\n" + name.encode()
        stop = len(text)
        at = text.find(needle)
        while at >= 0:
            self._lines_left -= 1
            begin = at + len(needle)
            end = text.find(b"\n", begin)
            if text[begin] in _NAME_ENDS:
                found.append(_sample(text, begin, end))
                self._labels_left -= len(found[-1].raw_labels)
                if len(found) == 1:
                    comment = text.find(b"\n#", end)
                    stop = comment if comment >= 0 else stop
            if self._lines_left < 0 or self._labels_left < 0:
                raise PageTooLargeError(
                    f"has more than {MAX_LINES} lines or {MAX_LABEL_BYTES} bytes of labels that are looked at"
                )
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
    """Cached, because the same lines come with every page."""
    return {
        key.decode(): _ESCAPE.sub(_unescaped, value).decode(errors="replace")
        for key, value in _LABEL.findall(raw)
    }


def _unescaped(escape: re.Match[bytes]) -> bytes:
    character = escape[1]
    return b"\n" if character == b"n" else character
