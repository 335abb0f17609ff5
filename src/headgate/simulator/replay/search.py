"""The highest rate that a fleet carries: by doubling and halving until it is known well enough."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

_MAX_DOUBLINGS = 12


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`rate_per_s` is the highest that was tried and carried; 0 if none was."""

    rate_per_s: float
    tried: list[tuple[float, float]]
    """Each rate with the share of requests that were in time, in the order in which they were tried."""


def highest_rate(
    attainment: Callable[[float], float], start: float, target: float, precision: float
) -> Found:
    """The highest rate whose `attainment` is at least `target`, as a share `precision` of itself at most off.

    Takes attainment to fall as the rate grows, which holds but for chance near the target. `start` is where
    to begin; it is doubled or halved, twelve times at most, until the answer lies between two rates.
    """
    tried: list[tuple[float, float]] = []

    def carries(rate: float) -> bool:
        tried.append((rate, attainment(rate)))
        return tried[-1][1] >= target

    low, high = 0.0, 0.0
    rate = start
    for _ in range(_MAX_DOUBLINGS):
        if carries(rate):
            low = rate
            rate = 2 * rate
        else:
            high = rate
            rate = rate / 2
        if low and high:
            break
    while low and high and high - low > precision * low:
        middle = (low + high) / 2
        if carries(middle):
            low = middle
        else:
            high = middle
    return Found(rate_per_s=low, tried=tried)
