"""Prompts of different lengths: a few lengths with their shares that stand for all of them.

Of the lengths, mean and variance are known; they are taken for lognormal. Shares are smaller for longer
prompts, as those are the ones whose first token comes late.
"""

from __future__ import annotations

from functools import lru_cache
from math import expm1, log, log1p, sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from headgate.planning.search import Array

__all__ = ["HIGH", "MAX_SPREAD", "Lengths", "of", "spread_of"]

MAX_SPREAD: Final = 16.0
"""Larger variances count as this."""
HIGH: Final = 0.95
"""The quantile that `spread_of` takes."""
_ENDS: Final = (0.0, 0.3, 0.6, 0.8, 0.88, 0.92, 0.94, 0.96, 0.98, 0.988, 0.992, 0.998, 1.0)
"""Percentiles between shares. Those that targets are for are within a share: at the end of one, many times
have the same share of late requests."""
_SHARES: Final[Array] = np.diff(np.array(_ENDS))
_DIGITS: Final = 2


class Lengths(NamedTuple):
    shares: Array
    """Of requests; they sum up to 1."""
    factors: Array
    """Lengths relative to the mean: a row for each variance, a column for each share, ascending."""


def of(spread: Array) -> Lengths:
    """For variances as multiples of the square of the mean; a single length if all of them are 0."""
    if not np.any(spread):
        return Lengths(np.ones(1), np.ones((len(spread), 1)))
    rows = [_factors(round(min(each, MAX_SPREAD), _DIGITS)) for each in spread.tolist()]
    return Lengths(_SHARES, np.array(rows))


def spread_of(high: float) -> float:
    """The variance of which the quantile `HIGH`, as a multiple of the mean, is as high."""
    if not high > 1:
        return 0.0
    reach = NormalDist().inv_cdf(HIGH)
    deviation = reach - sqrt(max(reach**2 - 2 * log(high), 0.0))
    return min(expm1(deviation**2), MAX_SPREAD)


@lru_cache(maxsize=4096)
def _factors(spread: float) -> tuple[float, ...]:
    """Means between percentiles, which have a closed form, relative to the mean of all."""
    if spread <= 0:
        return (1.0,) * len(_SHARES)
    deviation, normal = sqrt(log1p(spread)), NormalDist()
    below = [0.0, *(normal.cdf(normal.inv_cdf(end) - deviation) for end in _ENDS[1:-1]), 1.0]
    return tuple((np.diff(np.array(below)) / _SHARES).tolist())
