"""How long to wait before another worker is started."""

from __future__ import annotations

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
LONGEST_ALONE_S = 4.0
"""While no worker serves: clients wait meanwhile, and a start costs half a second of CPU time."""
STEADY_S = 60.0
"""A worker that ends after serving this long is replaced immediately, and so is the first one that ends."""


class Backoff:
    """The delays of one slot, each twice as long as the one before."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def after_failed_start(self, *, is_alone: bool) -> float:
        """A worker did not become ready. `is_alone`: whether no other worker serves."""
        self._next_s = max(self._next_s, FIRST_DELAY_S)
        return self._take(is_alone=is_alone)

    def after_end(self, served_s: float, *, is_alone: bool) -> float:
        """A worker ended after it had served for so long."""
        if served_s >= STEADY_S:
            self._next_s = 0.0
        return self._take(is_alone=is_alone)

    def forget(self) -> None:
        """What made starts fail may be mended."""
        self._next_s = 0.0

    def _take(self, *, is_alone: bool) -> float:
        delay_s = min(self._next_s, LONGEST_ALONE_S) if is_alone else self._next_s
        self._next_s = min(max(2 * self._next_s, FIRST_DELAY_S), LONGEST_DELAY_S)
        return delay_s
