"""Repair of a ratio, by the fixtures of the specification (A35)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.autoscaling import Bounds, RatioRange, repaired

ALLOWED = RatioRange(0.25, 1.0)


@pytest.mark.parametrize(
    ("prefill", "decode", "expected"),
    [(1, 8, (2, 8)), (6, 2, (6, 6)), (0, 4, (1, 4)), (4, 0, (4, 4)), (0, 0, (0, 0)), (3, 4, (3, 4))],
)
def test_the_role_with_too_few_gets_more(prefill: int, decode: int, expected: tuple[int, int]) -> None:
    assert repaired(prefill, decode, ALLOWED, Bounds(0, 8), Bounds(0, 16)) == expected


def test_at_its_maximum_the_other_role_loses_some() -> None:
    assert repaired(2, 20, ALLOWED, Bounds(0, 3), Bounds(0, 20)) == (3, 12)
    assert repaired(9, 2, ALLOWED, Bounds(0, 9), Bounds(0, 4)) == (4, 4)


@given(st.data())
def test_bounds_always_hold(data: st.DataObject) -> None:
    numbers = st.integers(0, 30)
    low = data.draw(st.floats(0.05, 5))
    allowed = RatioRange(low, low + data.draw(st.floats(0, 5)))
    bounds = [Bounds(least, least + data.draw(numbers)) for least in (data.draw(numbers), data.draw(numbers))]
    found = repaired(data.draw(numbers), data.draw(numbers), allowed, *bounds)
    assert all(b.minimum <= n <= b.maximum for b, n in zip(bounds, found, strict=True))
