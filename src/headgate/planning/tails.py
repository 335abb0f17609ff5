"""Sums over the states in which requests wait: geometric series, and the distribution of Poisson."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from headgate.planning.search import Array

__all__ = ["Geometric", "geometric", "poisson_at_most"]

_FLAT: Final = 1e-3
"""Below this exponent of its last term, a series is expanded around a ratio of 1."""
_CERTAIN: Final = 40.0
"""Probabilities below exp(-40) count as zero."""
_NEGLIGIBLE: Final = 1e-17
"""Terms below this share of their sum are left out."""
_TERMS: Final = 64
"""That are computed at a time."""
_STIRLING: Final = tuple(
    math.lgamma(n + 1) - n * math.log(max(n, 1)) + n - math.log(2 * math.pi * max(n, 1)) / 2
    for n in range(32)
)
"""By which the formula of Stirling is too small for the logarithms of the first factorials."""


class Geometric(NamedTuple):
    """Sums over j from 1 to `queue` of ratio^j, divided by ratio^queue if that is above 1."""

    total: Array
    weighted: Array
    """Sum of j * ratio^j."""
    last: Array


def geometric(log_ratio: Array, queue: Array) -> Geometric:
    """Also for ratios near 1, where the closed form cancels, and above, where the series grows."""
    slope = np.abs(log_ratio)
    terms = np.maximum(queue, 1)
    is_flat = slope * terms < _FLAT
    safe = np.where(is_flat, 1.0, slope)
    ratio, lost = np.exp(-safe), np.exp(-safe * terms)
    gap = -np.expm1(-safe)
    count = np.where(is_flat, _flat_count(slope, terms), -np.expm1(-safe * terms) / gap)
    first = (ratio * (1 - lost) / gap - terms * lost) / gap
    moment = np.where(is_flat, _flat_moment(slope, terms), first)
    is_falling, step = log_ratio <= 0, np.exp(-slope)
    total = np.where(is_falling, step * count, count)
    weighted = np.where(is_falling, step * (moment + count), terms * count - moment)
    last = np.where(is_falling, np.exp(-slope * terms), 1.0)
    is_queue = queue > 0
    return Geometric(*(np.where(is_queue, each, 0.0) for each in (total, weighted, last)))


def _flat_count(slope: Array, terms: Array) -> Array:
    """Sum of exp(-slope * i) for i below `terms`, to the second order."""
    ones, squares = terms * (terms - 1) / 2, terms * (terms - 1) * (2 * terms - 1) / 6
    return terms - slope * ones + slope**2 / 2 * squares


def _flat_moment(slope: Array, terms: Array) -> Array:
    """Sum of i * exp(-slope * i) for i below `terms`, to the second order."""
    ones, squares = terms * (terms - 1) / 2, terms * (terms - 1) * (2 * terms - 1) / 6
    return ones - slope * squares + slope**2 / 2 * ones**2


def poisson_at_most(most: Array, mean: Array) -> Array:
    """Probability of at most `most` events, whole numbers, where `mean` are expected.

    The bound of Chernoff decides most cases; the others are summed from `most` outwards, all at once.
    """
    most, mean = np.broadcast_arrays(most, mean)
    count = most + 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = np.where(mean > 0, mean - count + count * np.log(count / mean), np.inf)
    is_near = (count > 0) & (distance < _CERTAIN)
    share = np.where((count > 0) & (mean < count), 1.0, 0.0)
    if np.any(is_near):
        share[is_near] = _summed(most[is_near], mean[is_near])
    return share


def _summed(most: Array, mean: Array) -> Array:
    """Terms fall away from the mean: those up to `most` if it is below, else the complement of the others."""
    is_below = (most < mean)[:, None]
    product, total = np.ones(len(most)), np.zeros(len(most))
    first = 1
    while np.any(product > _NEGLIGIBLE * total):
        steps = np.arange(first, first + _TERMS, dtype=float)
        down = np.maximum(most[:, None] - steps + 1, 0) / mean[:, None]
        up = mean[:, None] / (most[:, None] + steps)
        terms = product[:, None] * np.cumprod(np.where(is_below, down, up), axis=1)
        total += terms.sum(axis=1)
        product = terms[:, -1]
        first += _TERMS
    at_most = np.exp(_log_probability(most, mean))
    return np.clip(np.where(is_below[:, 0], at_most * (1 + total), 1 - at_most * total), 0.0, 1.0)


def _log_probability(events: Array, mean: Array) -> Array:
    """Of exactly so many events, without cancellation near the mean (Loader 2000)."""
    safe = np.maximum(events, 1.0)
    apart = np.where(events > 0, (mean - safe) / safe, 0.0)
    deviance = safe * (apart - np.log1p(apart))
    few = np.array(_STIRLING)[np.minimum(safe, len(_STIRLING) - 1).astype(int)]
    many = (1 / 12 - (1 / 360 - 1 / 1260 / safe**2) / safe**2) / safe
    error = np.where(safe < len(_STIRLING), few, many)
    return np.where(events > 0, -deviance - error - np.log(2 * math.pi * safe) / 2, -mean)
