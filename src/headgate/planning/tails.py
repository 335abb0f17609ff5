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
    """Probability of at most `most` events, where `mean` are expected.

    The bound of Chernoff decides most cases; the others are summed in logarithms.
    """
    count = most + 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = np.where(mean > 0, mean - count + count * np.log(count / mean), np.inf)
    distance = np.where(count > 0, distance, np.inf)
    share = np.where((count > 0) & (mean < count), 1.0, 0.0)
    for index in np.flatnonzero(distance < _CERTAIN):
        share[index] = _summed(int(most[index]), float(mean[index]))
    return share


def _summed(most: int, mean: float) -> float:
    """The terms around the mean; those further away are below exp(-40)."""
    spread = math.sqrt(2 * _CERTAIN * mean) + 2 * _CERTAIN
    least = max(0, int(mean - spread))
    events = np.arange(least, min(most, int(mean + spread)) + 1, dtype=float)
    steps = np.concatenate(([0.0], np.cumsum(np.log(mean / events[1:])))) if len(events) else events
    start = least * math.log(mean) - mean - math.lgamma(least + 1)
    return min(float(np.exp(start + steps).sum()), 1.0)
