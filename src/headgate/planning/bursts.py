"""Arrivals that come in bursts, with little between them: the rate that most requests arrive at. Pure.

The queueing model knows random arrivals at a steady rate. Where the rate itself goes up and down within
seconds, replicas for its mean keep targets only between bursts, and none can be started while one lasts.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import Final

__all__ = ["BURSTY", "Bursts"]

_READINGS: Final = 40
"""Those that count: ten minutes of readings that cover 15 s."""
_FEWEST: Final = 8
_STEPS: Final = 2
"""The largest differences that do not count: a step is no burst."""
BURSTY: Final = 10.0
"""Arrivals that vary by more than this multiple of chance come in bursts; those of few clients, by 2 to 5."""
_DEVIATIONS: Final = 1.645
"""Above the mean, which 95 % of readings do not exceed."""


class Bursts:
    """Takes in readings in order."""

    __slots__ = ("_counts", "_last", "_window_s", "dispersion")

    def __init__(self, window_s: float) -> None:
        """Readings are means over this time."""
        self._window_s = window_s
        self._counts: deque[float] = deque(maxlen=_READINGS)
        """Arrivals of readings that do not overlap."""
        self._last = -math.inf
        self.dispersion = 0.0
        """Variance of arrivals as a multiple of that of chance; 0: unknown."""

    def add(self, arrivals_per_s: float, now: float) -> float:
        """Take in a reading. Returns the arrivals per second that bursts have; 0 where there are none."""
        if now - self._last >= self._window_s:
            self._counts.append(arrivals_per_s * self._window_s)
            self._last = now
        counts = list(self._counts)
        mean = sum(counts) / len(counts)
        if len(counts) < _FEWEST or not mean:
            self.dispersion = 0.0
            return 0.0
        squares = sorted((after - before) ** 2 for before, after in itertools.pairwise(counts))
        kept = squares[:-_STEPS]
        variance = sum(kept) / (2 * len(kept))
        self.dispersion = variance / mean
        if self.dispersion <= BURSTY:
            return 0.0
        return min(mean + _DEVIATIONS * math.sqrt(variance - mean), max(counts)) / self._window_s
