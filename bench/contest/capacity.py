"""The highest rate at which enough first tokens are in time."""

from __future__ import annotations

from collections.abc import Callable

TARGET_S = 2.0
SHARE = 0.9


def highest_rate(is_met: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """Bisection over requests per second; returns `low` if even that is not met."""
    for _ in range(steps):
        middle = (low * high) ** 0.5
        if is_met(middle):
            low = middle
        else:
            high = middle
    return low
