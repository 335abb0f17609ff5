"""The level of a noisy quantity: its mean since it last changed by more than chance explains. Pure.

Readings are means over a time or over requests, so each has a known weight of evidence. As long as nothing
changes, the mean of all of them counts, which becomes ever more exact; so a plan that follows it settles.
Once the latest readings differ from it by more than chance explains, they alone count, which takes seconds
for a clear step. How much chance explains is learned as well: requests of some clients come in bursts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["Level", "by_arrivals", "by_share", "by_size"]

CERTAIN: Final = 5.0
"""How many standard deviations of chance a change exceeds. Readings overlap, and each is compared with many
spans of time before it, so that 3 or 4 are exceeded every hour."""
_STEADY: Final = 2.0
"""The level that is told stays while the mean is within this many standard deviations of it."""
_LONGEST: Final = 120.0
"""The mean covers the evidence of this many readings at most, so that it follows a slow drift: half an hour
of readings that cover 15 s."""
_SPANS: Final = 32
"""Ends of earlier spans that are remembered."""
_SPANS_PER_READING: Final = 1.5
_SIZE_SPREAD: Final = 2.0
"""Standard deviation of the tokens of a request, relative to their mean; chat traces have 1 to 2."""

_PAIRS: Final = 60
"""Burstiness is a mean over about this many pairs of readings, and begins as if a sixth of them had none."""
_OUTLIER: Final = 9.0
"""A pair counts up to this multiple of the mean: a step is no burst."""

Distance = Callable[[float, float, float, float], float]
"""By how many standard deviations two means differ, each with its weight."""


def by_arrivals(now: float, weight: float, before: float, weight_before: float) -> float:
    """For numbers of arrivals per second, with seconds as weights: the square root of a number has the same
    variance whatever the number is, by Anscombe, `The transformation of Poisson data` (1948)."""
    after = math.sqrt(now + 0.375 / weight) - math.sqrt(before + 0.375 / weight_before)
    return 2.0 * after / math.sqrt(1.0 / weight + 1.0 / weight_before)


def by_size(now: float, weight: float, before: float, weight_before: float) -> float:
    """For tokens of a request, with numbers of requests as weights."""
    if now <= 0 or before <= 0:
        return 0.0 if now == before else math.copysign(math.inf, now - before)
    return (math.log(now) - math.log(before)) / (_SIZE_SPREAD * math.sqrt(1.0 / weight + 1.0 / weight_before))


def by_share(now: float, weight: float, before: float, weight_before: float) -> float:
    """For shares of the tokens of requests, with numbers of requests as weights."""
    after = math.asin(math.sqrt(now)) - math.asin(math.sqrt(before))
    return 2.0 * after / (_SIZE_SPREAD * math.sqrt(1.0 / weight + 1.0 / weight_before))


class _Burstiness:
    """The variance of readings relative to that of chance, at least 1: by how much each differs from the one
    a whole window before. A drift or a step adds little to it."""

    __slots__ = ("_before", "_pairs", "variance")

    def __init__(self) -> None:
        self.variance = 1.0
        self._pairs = _PAIRS // 6
        self._before: tuple[float, float, float] | None = None
        """Time, value and evidence of the last reading that counted."""

    def add(self, distance: Distance, value: float, whole: float, now: float, window_s: float) -> None:
        if self._before is not None:
            at, before, weight = self._before
            if now - at < window_s:
                return
            off = distance(value, whole, before, weight) ** 2
            self._pairs = min(self._pairs + 1, _PAIRS)
            self.variance += (min(off, _OUTLIER * self.variance) - self.variance) / self._pairs
        self._before = (now, value, whole)

    @property
    def deviations(self) -> float:
        """By which standard deviations are multiplied."""
        return math.sqrt(max(self.variance, 1.0))


class _Mark(NamedTuple):
    """The state at an earlier time."""

    at: float
    total: float
    evidence: float
    mean: float
    weight: float


class Level:
    """One quantity over time. `add` takes readings in order; times are in seconds."""

    __slots__ = (
        "_burstiness",
        "_distance",
        "_evidence",
        "_marks",
        "_mean",
        "_settled_at",
        "_total",
        "_weight",
        "told",
    )

    def __init__(self, distance: Distance) -> None:
        self._distance = distance
        self._burstiness = _Burstiness()
        self._marks: deque[_Mark] = deque(maxlen=_SPANS)
        self._total = 0.0
        """Sum of readings by their evidence, and of the evidence, so far."""
        self._evidence = 0.0
        self._mean = 0.0
        self._weight = 0.0
        self._settled_at = -math.inf
        """When the readings cover nothing from before the last change."""
        self.told = 0.0
        """The level."""

    def add(self, value: float, whole: float, new: float, now: float, window_s: float) -> float:
        """Take in a reading, a mean over the last `window_s`; returns the level.

        `whole` is the evidence of the reading, and `new` the part of it that no earlier one covers.
        """
        if not self._weight:
            self._begin(value, whole)
        self._burstiness.add(self._distance, value, whole, now, window_s)
        self._total += value * new
        self._evidence += new
        changed = self._changed(value, whole)
        if changed is not None:
            self._begin(*changed)
            self._settled_at = now + window_s
        elif now < self._settled_at:
            self._begin(value, whole)
        else:
            self._weight = min(self._weight + new, _LONGEST * whole)
            self._mean += (value - self._mean) * min(new / self._weight, 1.0) if new else 0.0
        self._mark(now, window_s)
        off = abs(self._distance(self._mean, self._weight, self.told, math.inf))
        if off > _STEADY * self._burstiness.deviations or not self.told:
            self.told = self._mean
        return self.told

    def _begin(self, mean: float, weight: float) -> None:
        self._mean, self._weight, self.told = mean, weight, mean
        self._marks.clear()

    def _changed(self, value: float, whole: float) -> tuple[float, float] | None:
        """The mean since the clearest change, and its evidence; None without one."""
        best, clearest = None, CERTAIN * self._burstiness.deviations
        candidates = [(value, whole, self._mean, self._weight)]
        for mark in self._marks:
            weight = self._evidence - mark.evidence
            if weight > whole:
                candidates.append(((self._total - mark.total) / weight, weight, mark.mean, mark.weight))
        for mean, weight, before, weight_before in candidates:
            off = abs(self._distance(mean, weight, before, weight_before))
            if off > clearest:
                best, clearest = (mean, weight), off
        return best

    def _mark(self, now: float, window_s: float) -> None:
        if not self._marks or now - self._marks[-1].at >= window_s / _SPANS_PER_READING:
            self._marks.append(_Mark(now, self._total, self._evidence, self._mean, self._weight))
