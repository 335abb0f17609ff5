"""Where a monotonic function reaches a target, and what happens if it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.search import bisect, is_within


def searched(function, low, high, target):
    found = bisect(function, np.array([low]), np.array([high]), np.array([target]))
    return float(found.x[0]), int(found.side[0])


@pytest.mark.parametrize(
    ("function", "target", "x", "side"),
    [
        (lambda x: x * x, 4, 2, 0),
        (lambda x: 2 * x, 6, 3, 0),
        (lambda x: 2 * x + 3, 9, 3, 0),
        (lambda x: -x, -3, 3, 0),
        (lambda x: 2 * x, 1, 1, -1),
        (lambda x: 2 * x, 11, 5, 1),
        (lambda x: -x, 0, 1, -1),
        (lambda x: -x, -6, 5, 1),
        (lambda x: 2 * x, 2, 1, 0),
        (lambda x: 2 * x, 10, 5, 0),
        (lambda x: 0 * x + 20, 20, 5, 0),
        (lambda x: 0 * x + 20, 24, 5, 1),
        (lambda x: 0 * x + 20, 19, 1, -1),
        (lambda x: np.where(x < 3, 1.0, 9.0), 5, 3, 0),
    ],
)
def test_a_target_is_found_between_1_and_5(function, target, x, side) -> None:
    """Rising, falling, constant and step functions; targets outside of them are at the nearer end."""
    assert searched(function, 1, 5, target) == (pytest.approx(x), side)


def test_an_interval_without_width_is_its_only_point() -> None:
    """Whatever the target."""
    assert searched(lambda x: x, 2, 2, 2) == (2, 0)
    assert searched(lambda x: x, 2, 2, 3) == (2, 1)


def test_a_reversed_interval_and_errors_are_reported() -> None:
    """An error of the function is not swallowed."""
    with pytest.raises(ValueError, match="reversed"):
        searched(lambda x: x, 5, 1, 2)
    with pytest.raises(ZeroDivisionError):
        searched(lambda x: 1 / 0, 1, 5, 2)


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(0, 1), st.floats(0.2, 5), st.booleans())
def test_the_value_found_does_not_exceed_the_target(low, width, share, power, rises) -> None:
    """And none further on meets it."""
    high, sign = low + width, 1 if rises else -1

    def function(x):
        return sign * ((x - low) / width) ** power

    target = sign * share**power
    x, side = searched(function, low, high, target)
    assert side == 0
    assert sign * function(x) <= sign * target + 1e-6
    further = min(high, x + 1e-5 * (abs(x) + width))
    assert further == high or sign * function(further) >= sign * target - 1e-6


@pytest.mark.parametrize(
    ("value", "target", "tolerance", "is_near"),
    [(5, 5, -1, True), (1, 0, 0.1, False), (0, 0, 0.1, True), (1.05, 1, 0.1, True), (1.2, 1, 0.1, False)],
)
def test_values_are_near_relative_to_the_target(value, target, tolerance, is_near) -> None:
    """Equal values always; nothing else is near zero, or within a negative tolerance."""
    assert bool(is_within(value, target, tolerance)) is is_near
