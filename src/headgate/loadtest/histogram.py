"""Histograms of times with a bounded relative error, in the manner of HdrHistogram.

Each power of two is divided into `STEPS` buckets of equal width, and a percentile is the middle of its
bucket: at most 1 / (2 * STEPS), 0.2 %, from the exact value. Times below 1 microsecond count as one. A
histogram has at most 10,240 buckets, however many times it counts, and the sum of two is that of all their
times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

STEPS: Final = 256
ERROR: Final = 1 / (2 * STEPS)
"""Largest relative error of a percentile."""
LEAST_S: Final = 1e-6
MOST_S: Final = 1e6
_STEPS_PER_UNIT: Final = 2 * STEPS


class Histogram(msgspec.Struct):
    """Counts of times in seconds, by bucket."""

    counts: dict[int, int] = {}
    count: int = 0
    sum_s: float = 0.0
    least_s: float = math.inf
    most_s: float = 0.0

    def record(self, value_s: float) -> None:
        """Count one time; negative ones count as 0."""
        self.record_all((value_s,))

    def record_all(self, values_s: Sequence[float]) -> None:
        """Count several times."""
        if not values_s:
            return
        counts, get, frexp = self.counts, self.counts.get, math.frexp
        for value_s in values_s:
            if not LEAST_S <= value_s <= MOST_S:
                value_s = min(max(value_s, LEAST_S), MOST_S)
            mantissa, exponent = frexp(value_s)
            bucket = exponent * STEPS + int((mantissa - 0.5) * _STEPS_PER_UNIT)
            counts[bucket] = get(bucket, 0) + 1
        self.count += len(values_s)
        self.sum_s += sum(values_s)
        self.least_s = min(self.least_s, max(min(values_s), 0.0))
        self.most_s = max(self.most_s, min(max(values_s), MOST_S))

    def add(self, other: Histogram) -> None:
        """Count all times of another histogram too."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.count += other.count
        self.sum_s += other.sum_s
        self.least_s = min(self.least_s, other.least_s)
        self.most_s = max(self.most_s, other.most_s)

    def percentile(self, share: float) -> float:
        """The least time such that at least this share (0 to 1) of all is not longer; nan without any."""
        rank = max(math.ceil(share * self.count), 1)
        for bucket in sorted(self.counts):
            rank -= self.counts[bucket]
            if rank <= 0:
                return min(max(_middle(bucket), self.least_s), self.most_s)
        return math.nan

    def percentiles(self, shares: tuple[float, ...]) -> list[float]:
        return [self.percentile(share) for share in shares]

    @property
    def mean_s(self) -> float:
        return self.sum_s / self.count if self.count else math.nan

    def steps(self) -> list[tuple[float, float]]:
        """The distribution: times, each with the share that is not longer."""
        shown, seen = [], 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            shown.append((_middle(bucket), seen / self.count))
        return shown


def _middle(bucket: int) -> float:
    exponent, step = divmod(bucket, STEPS)
    return math.ldexp(0.5 + (step + 0.5) / (2 * STEPS), exponent)
