"""Learns how long something usually takes in a pool, and from when on that is suspicious."""

from __future__ import annotations

import math

MIN_KNOWN = 50
"""Samples needed before anything counts as long."""
MAX_KNOWN = 4096
"""Beyond this many samples, older ones count half, so that the estimate follows changes."""
RARE_SHARE = 0.01
TIMES = 3.0
MIN_MAX_S = 5.0
_BUCKETS = 256
_FRESH_S = 1.0


class Waits:
    """Histogram of waits in steps of `step_s`, up to 256 of them. The bound is at least `least_s`, and at
    most `medians` medians or 5 s: a few slow ones must not hide an endpoint that has stopped."""

    __slots__ = ("_bound_s", "_counts", "_least_s", "_medians", "_per_s", "_read_at")

    def __init__(self, step_s: float, least_s: float, medians: float = math.inf) -> None:
        self._medians = medians
        self._per_s = 1.0 / step_s
        self._least_s = least_s
        self._counts = [0] * _BUCKETS
        self._bound_s: float | None = None
        self._read_at = -math.inf

    def note(self, wait_s: float) -> None:
        place = int(wait_s * self._per_s)
        self._counts[place if 0 <= place < _BUCKETS else -1] += 1

    def long_s(self, now: float) -> float | None:
        """Three times the 99th percentile, within the bounds; None with too few samples. Computed once a
        second."""
        if now - self._read_at >= _FRESH_S:
            self._read_at, self._bound_s = now, self._read()
        return self._bound_s

    def _read(self) -> float | None:
        known = sum(self._counts)
        if known < MIN_KNOWN:
            return None
        rare, median = self._place(known * RARE_SHARE), self._place(known / 2)
        if known > MAX_KNOWN:
            self._counts = [count // 2 for count in self._counts]
        most_s = max(self._medians * self._until_s(median), MIN_MAX_S)
        return max(min(TIMES * self._until_s(rare), most_s), self._least_s)

    def _place(self, longer: float) -> int:
        """The first step with more than `longer` samples at or after it."""
        count, place = 0, _BUCKETS
        while count <= longer:
            place -= 1
            count += self._counts[place]
        return place

    def _until_s(self, place: int) -> float:
        """The end of a step; infinite for the last one."""
        return math.inf if place == _BUCKETS - 1 else (place + 1) / self._per_s
