"""A logger for what another server can make happen as often as it likes: few lines, of which the last counts.

A server that goes up and down twenty times a second would write as many lines, which fill a disk and hide
what others say. The first lines are written as they come. Then one is, now and then, with the number of those
that were left out; and once it is quiet, the last of those, so that the log ends with how things are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

AT_ONCE = 10
EVERY_S = 10.0
"""Between two lines, once as many have been written."""


class FewLines:
    """`settle` is to be called now and then."""

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._saved = float(AT_ONCE)
        self._saved_at = now()
        self._left_out = 0
        self._last: tuple[int, str] | None = None
        """The last line that was left out, since one was written."""

    def info(self, text: str, *arguments: object) -> None:
        self._say(logging.INFO, text, arguments)

    def warning(self, text: str, *arguments: object) -> None:
        self._say(logging.WARNING, text, arguments)

    def error(self, text: str, *arguments: object) -> None:
        self._say(logging.ERROR, text, arguments)

    def _say(self, level: int, text: str, arguments: tuple[object, ...]) -> None:
        if not self._log.isEnabledFor(level):
            return
        line = text % arguments
        if self._may_write():
            self._write(level, line)
        else:
            self._left_out += 1
            self._last = level, line

    def settle(self) -> None:
        """Writes the last line that was left out, if there is one and it is time."""
        if self._last is not None and self._may_write():
            self._left_out -= 1
            self._write(*self._last)

    def _may_write(self) -> bool:
        now = self._now()
        self._saved = min(self._saved + (now - self._saved_at) / EVERY_S, AT_ONCE)
        self._saved_at = now
        return self._saved >= 1.0

    def _write(self, level: int, line: str) -> None:
        self._saved -= 1.0
        left_out, self._left_out, self._last = self._left_out, 0, None
        if left_out:
            line = f"{line} (lines like it that were left out before: {left_out:,})"
        self._log.log(level, "%s", line)
