"""Saturation ceilings per priority: llm-d's usage limit policies.

What a lower priority may not use stays free for the higher ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SLICE_S = 0.001
"""Length of a time slice, for bands that are open part of the time."""


class Ceilings:
    """static-usage-limit-policy: the same ceiling for all priorities."""

    def __init__(self, ceiling: float = 1.0) -> None:
        self.fixed: float | None = ceiling
        """The ceiling of every priority; None if they differ."""
        self._priorities: Sequence[int] = ()

    def follow_bands(self, priorities: Sequence[int]) -> None:
        """Update the priorities, highest first."""
        self._priorities = priorities

    def of(self, priority: int, saturation: float, now: float) -> float:
        """The saturation from which on the priority has no capacity."""
        assert self.fixed is not None
        return self.fixed

    def opens_at(self, priority: int, saturation: float, now: float) -> float:
        """When the ceiling next rises by itself; infinite if it does not."""
        return math.inf

    def _rank(self, priority: int) -> int:
        """Number of priorities above it."""
        return sum(1 for each in self._priorities if each > priority)


class Holdback(Ceilings):
    """priority-holdback-policy: from `most` for the highest priority down to `least` for the lowest, in equal
    steps or in proportion to the priority values."""

    def __init__(self, least: float, most: float = 1.0, *, by_value: bool = False) -> None:
        super().__init__()
        self.fixed = None
        self._least = least
        self._most = most
        self._by_value = by_value

    def of(self, priority: int, saturation: float, now: float) -> float:
        priorities = self._priorities
        if len(priorities) < 2:
            return self._most
        if self._by_value:
            lowest, highest = priorities[-1], priorities[0]
            share = (min(max(priority, lowest), highest) - lowest) / (highest - lowest)
        else:
            share = 1.0 - min(self._rank(priority) / (len(priorities) - 1), 1.0)
        return self._least + share * (self._most - self._least)


class SoftReflective(Ceilings):
    """soft-reflective-ceiling-policy: the fuller the pool, the lower the ceilings.

    The band of rank i of N is fully open below a saturation of 1 - i * saturation / (N - 1). Above, it is
    open in one of round(saturation / (1 - saturation)) time slices, the same ones for all bands, and closed
    from saturation 1 on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fixed = None

    def of(self, priority: int, saturation: float, now: float) -> float:
        rank = self._rank(priority)
        if not rank or self._is_below(rank, saturation):
            return 1.0
        if saturation >= 1.0 or int(now / SLICE_S) % _period(saturation):
            return 0.0
        return 1.0

    def opens_at(self, priority: int, saturation: float, now: float) -> float:
        rank = self._rank(priority)
        if not rank or saturation >= 1.0 or self._is_below(rank, saturation):
            return math.inf
        period = _period(saturation)
        return ((math.floor(now / SLICE_S / period) + 1) * period + 0.5) * SLICE_S

    def _is_below(self, rank: int, saturation: float) -> bool:
        return saturation < 1.0 - rank * saturation / max(len(self._priorities) - 1, 1)


def _period(saturation: float) -> int:
    return max(round(saturation / (1.0 - saturation)), 1)
