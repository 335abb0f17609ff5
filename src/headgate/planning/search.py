"""Find where a monotonic function reaches a target, for many functions at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Flags", "Found", "bisect", "is_within"]

Array: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

TOLERANCE: Final = 1e-6
"""Relative distance at which a value at an end of the interval counts as the target."""
_PRECISION: Final = 1e-13
"""Relative width of the interval at which the search ends."""
_ROUNDING: Final = 1e-9
"""Functions whose ends differ relatively by less than this are constant."""
_STEPS: Final = 100
_TINY: Final = 1e-300


class Found(NamedTuple):
    """One element for each function."""

    x: Array
    """Where the target is reached, on the side of values that do not exceed it; else the nearer end."""
    side: NDArray[np.int8]
    """0: reached; -1: already passed at the low end; +1: not yet reached at the high end."""


def is_within(value: Array | float, target: Array | float, tolerance: float = TOLERANCE) -> Flags:
    """Whether the relative distance is at most `tolerance`. Nothing but zero itself is near a target of zero,
    and no other value is near for a negative tolerance."""
    value, target = np.asarray(value, float), np.asarray(target, float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near = np.abs((value - target) / target) <= tolerance
    return np.equal(value, target) | (np.not_equal(target, 0) & near & (tolerance >= 0))


def bisect(evaluate: Callable[[Array], Array], low: Array, high: Array, target: Array) -> Found:
    """Search each interval for the largest x whose value does not pass the target.

    Functions may rise or fall; a constant one counts as rising, so that a target above it is reached nowhere
    (`side` +1) and one below it is passed everywhere (-1). Raises ValueError for a reversed interval;
    errors of `evaluate` pass through.
    """
    low, high, target = (np.array(each, float) for each in np.broadcast_arrays(low, high, target))
    if np.any(low > high):
        raise ValueError(f"search: the interval from {low} to {high} is reversed")
    at_low, at_high = evaluate(low), evaluate(high)
    is_rising = at_low - at_high <= _ROUNDING * np.maximum(np.abs(at_low), np.abs(at_high))
    sign = np.where(is_rising, 1.0, -1.0)
    is_high = is_within(at_high, target)
    is_low = is_within(at_low, target) & ~is_high
    above = ~is_high & ~is_low & (sign * target > sign * at_high)
    below = ~is_high & ~is_low & (sign * target < sign * at_low)
    x = np.where(is_high | above, high, low)
    inside = ~(is_high | is_low | above | below)
    if np.any(inside):
        ends = sign * (at_low - target), sign * (at_high - target)
        x = np.where(inside, _enclosed(evaluate, low, high, sign, target, ends), x)
    return Found(x, (above.astype(np.int8) - below.astype(np.int8)).astype(np.int8))


def _enclosed(
    evaluate: Callable[[Array], Array],
    low: Array,
    high: Array,
    sign: Array,
    target: Array,
    ends: tuple[Array, Array],
) -> Array:
    """The method of Chandrupatla: inverse quadratic interpolation where it is safe, else halving.

    `newest` and `other` enclose the target; `previous` is the point before. Returns the end that meets it.
    """
    newest, other, previous = high, low, high
    at_other, at_newest = ends
    at_previous = at_newest
    share = np.full(np.shape(low), 0.5)
    for _ in range(_STEPS):
        x = newest + share * (other - newest)
        at_x = sign * (evaluate(x) - target)
        is_same = (at_x > 0) == (at_newest > 0)
        previous, at_previous = np.where(is_same, newest, other), np.where(is_same, at_newest, at_other)
        other, at_other = np.where(is_same, other, newest), np.where(is_same, at_other, at_newest)
        newest, at_newest = x, at_x
        width = np.abs(other - newest)
        least = _PRECISION * np.abs(newest) / np.maximum(width, _TINY)
        if np.all(least >= 0.5):
            break
        share = np.clip(_interpolated(newest, other, previous, at_newest, at_other, at_previous), 0, 1)
        share = np.clip(share, np.minimum(least, 0.5), np.maximum(1 - least, 0.5))
    return np.where(at_newest <= 0, newest, other)


def _interpolated(
    newest: Array, other: Array, previous: Array, at_newest: Array, at_other: Array, at_previous: Array
) -> Array:
    """Where to look next, as a share of the way from `newest` to `other`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        place = (newest - other) / (previous - other)
        value = (at_newest - at_other) / (at_previous - at_other)
        is_safe = (value**2 < place) & ((1 - value) ** 2 < 1 - place)
        share = at_newest / (at_other - at_newest) * at_previous / (at_other - at_previous)
        share += (
            (previous - newest)
            / (other - newest)
            * (at_newest / (at_previous - at_newest) * at_other / (at_previous - at_other))
        )
    return np.where(is_safe & np.isfinite(share), share, 0.5)
