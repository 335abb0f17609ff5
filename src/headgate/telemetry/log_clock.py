"""The time of all log lines: RFC 3339, UTC, with milliseconds."""

from __future__ import annotations

import time
from typing import Final

SECONDS: Final = "%Y-%m-%dT%H:%M:%S"
"""Without the fraction, which is `.123Z`."""


class LogClock:
    """The wall clock in RFC 3339 with milliseconds. Texts are cached: of the second, of each fraction, and of
    the moment, which many requests share on a busy gateway."""

    def __init__(self) -> None:
        self._second = 0
        self._text = ""
        self._fractions = [f".{millisecond:03d}Z" for millisecond in range(1000)]
        self._moment = ""
        self._stale_at = 0.0

    def at(self, loop_time: float) -> str:
        """The time now; `loop_time` is the event loop's, in seconds."""
        if loop_time >= self._stale_at:
            self._stale_at = loop_time + 0.001
            self._moment = self._read()
        return self._moment

    def _read(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._text = time.strftime(SECONDS, time.gmtime(second))
        return self._text + self._fractions[int((now - second) * 1000)]
