"""How long something usually takes in a pool, and from when on it takes suspiciously long."""

from __future__ import annotations

import math

LEAST_KNOWN = 50
"""So many have to be known before anything is called long."""
MOST_KNOWN = 4096
"""Beyond it, all that was seen before counts half: what is usual changes."""
RARE_SHARE = 0.01
TIMES = 3.0
_BUCKETS = 256
_FRESH_S = 1.0


class Waits:
    """Counts waits in steps of `step_s` up to 256 of them. `least_s` is called long at the soonest."""

    __slots__ = ("_bound_s", "_counts", "_least_s", "_per_s", "_read_at")

    def __init__(self, step_s: float, least_s: float) -> None:
        self._per_s = 1.0 / step_s
        self._least_s = least_s
        self._counts = [0] * _BUCKETS
        self._bound_s: float | None = None
        self._read_at = -math.inf

    def note(self, wait_s: float) -> None:
        place = int(wait_s * self._per_s)
        self._counts[place if 0 <= place < _BUCKETS else -1] += 1

    def long_s(self, now: float) -> float | None:
        """Three times the 99th percentile; None while too little is known. Worked out once a second."""
        if now - self._read_at >= _FRESH_S:
            self._read_at, self._bound_s = now, self._read()
        return self._bound_s

    def _read(self) -> float | None:
        known = sum(self._counts)
        if known < LEAST_KNOWN:
            return None
        longer, place = 0, _BUCKETS
        while longer <= known * RARE_SHARE:
            place -= 1
            longer += self._counts[place]
        if known > MOST_KNOWN:
            self._counts = [count // 2 for count in self._counts]
        if place == _BUCKETS - 1:
            return math.inf  # as long as can be told, or longer
        return max(TIMES * (place + 1) / self._per_s, self._least_s)
