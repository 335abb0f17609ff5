"""The speed of an endpoint that several gateways keep busy, from the engine's count of first tokens.

A first token shows how long a prompt took only if nothing unknown was prefilled before it. While prompts of
other gateways wait at the endpoint, that is never so. But then the engine is never idle either, and it counts
the first tokens of all: prompts of the usual length, served one after another.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headgate.fleet.reading import EngineReading

MIN_FIRST_TOKENS: Final = 8
"""First tokens in one lesson. Of the first and the last, an unknown part lies outside of its time."""
MIN_S: Final = 4.5
"""Seconds of one lesson, in which each reading found a prompt that waited: in between, a fast engine may have
been idle for moments."""
MAX_RUNNING: Final = 32
"""With more requests in its batches, or a cache that is half full, an engine may let prompts wait for a place
instead of for its prefill."""
MAX_KV_USAGE: Final = 0.5


class SharedLesson(NamedTuple):
    """What an engine did while prompts were always waiting."""

    first_tokens: int
    took_s: float


class SharedPrefill:
    """First tokens of one endpoint since prompts wait there, some of them of other gateways."""

    __slots__ = ("_count", "_is_shared", "_since")

    def __init__(self) -> None:
        self._since = math.inf
        """Time of the reading from which on first tokens are counted."""
        self._count = 0
        self._is_shared = False
        """Whether prompts of others waited since then."""

    def clear(self) -> None:
        """Begin again with the next reading."""
        self._begin(math.inf)

    def _begin(self, since: float) -> None:
        self._since, self._count, self._is_shared = since, 0, False

    def read(self, reading: EngineReading, others: int) -> SharedLesson | None:
        """Apply a reading with so many waiting requests of others. Returns the lesson that it completes, if
        any."""
        is_full = (reading.running or 0) > MAX_RUNNING or (reading.kv_usage or 0.0) > MAX_KV_USAGE
        if not reading.waiting or is_full:
            self.clear()
            return None
        self._is_shared = self._is_shared or others > 0
        since, until = reading.ttft_since, reading.ttft_at
        if self._since == math.inf:
            self._begin(reading.at)
        elif reading.first_tokens is not None and since is not None and until == reading.at:
            if since < self._since:  # the engine may have been idle in a part of the interval
                self._begin(until)
                return None
            self._count += reading.first_tokens
            took_s = until - self._since
            if self._count >= MIN_FIRST_TOKENS and took_s >= MIN_S:
                lesson = SharedLesson(self._count, took_s) if self._is_shared else None
                self._begin(until)
                return lesson
        return None
