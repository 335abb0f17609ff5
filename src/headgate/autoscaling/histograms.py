"""Quantiles of what cumulative histograms counted between two readings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

__all__ = ["Bucket", "Histogram", "HistogramError", "difference", "merged", "quantile"]


class HistogramError(ValueError):
    """Two histograms do not fit, or counts fall."""


class Bucket(NamedTuple):
    upper: float
    """Largest value in the bucket; infinite for the last one."""
    cumulative: float
    """Values up to `upper`, which includes those of all earlier buckets."""


Histogram: TypeAlias = Sequence[Bucket]
"""Buckets in rising order."""


def difference(now: Histogram, before: Histogram) -> tuple[Bucket, ...]:
    """What was counted since; raises HistogramError if the buckets changed, or if a count fell, as when the
    Pod restarted."""
    if [bucket.upper for bucket in now] != [bucket.upper for bucket in before]:
        raise HistogramError("the two readings of the histogram have different buckets")
    found = tuple(
        Bucket(new.upper, new.cumulative - old.cumulative) for new, old in zip(now, before, strict=True)
    )
    _check(found)
    return found


def merged(histograms: Iterable[Histogram]) -> tuple[Bucket, ...]:
    """All histograms as one, for several series or Pods; raises HistogramError if their buckets differ."""
    total: tuple[Bucket, ...] = ()
    for histogram in histograms:
        if not total:
            total = tuple(histogram)
            continue
        if [bucket.upper for bucket in total] != [bucket.upper for bucket in histogram]:
            raise HistogramError("histograms with different buckets cannot be merged")
        total = tuple(
            Bucket(one.upper, one.cumulative + other.cumulative)
            for one, other in zip(total, histogram, strict=True)
        )
    return total


def quantile(histogram: Histogram, share: float) -> float:
    """The value that `share` (above 0, at most 1) of the counted values do not exceed; 0 if none was counted.

    Values are taken to be spread evenly inside a bucket. The last one, up to infinity, is taken to reach to
    twice its lower bound. Raises HistogramError if counts fall.
    """
    _check(histogram)
    total = histogram[-1].cumulative if histogram else 0.0
    if total <= 0:
        return 0.0
    rank = math.ceil(total * share - 1e-9)
    lower, below = 0.0, 0.0
    for bucket in histogram:
        if bucket.cumulative >= rank and bucket.cumulative > below:
            upper = bucket.upper if bucket.upper < math.inf else 2 * lower
            lower = min(lower, upper)
            return upper - (bucket.cumulative - rank) * (upper - lower) / (bucket.cumulative - below)
        lower, below = bucket.upper, bucket.cumulative
    return lower


def _check(histogram: Histogram) -> None:
    below = 0.0
    for bucket in histogram:
        if not below <= bucket.cumulative < math.inf:  # also for NaN
            raise HistogramError(f"the count of the bucket up to {bucket.upper} fell, or is not finite")
        below = bucket.cumulative
