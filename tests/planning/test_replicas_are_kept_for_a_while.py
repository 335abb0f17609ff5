"""Fewer replicas need to suffice for one to five minutes, by how the load varies; more are planned for at
once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.steadiness import LONGEST_S, SHORTEST_S, Steadiness, window_s


def test_the_most_of_five_minutes_count():
    steadiness = Steadiness()
    decided = [
        steadiness.decide(desired, at) for at, desired in ((0.0, 4), (10.0, 2), (299.0, 3), (300.0, 2))
    ]
    assert decided == [4, 4, 4, 3]
    assert steadiness.decide(2, 598.0) == 3
    assert steadiness.decide(2, 599.0) == 2
    assert steadiness.decide(5, 600.0) == 5
    steadiness.forget()
    assert steadiness.decide(1, 601.0) == 1


@pytest.mark.parametrize(
    ("dispersion", "seconds"),
    [(0.0, 300.0), (0.3, 60.0), (1.0, 60.0), (2.0, 90.0), (5.5, 180.0), (10.0, 300.0), (50.0, 300.0)],
)
def test_bursts_take_longer_to_be_over(dispersion, seconds):
    """Unknown ones as well."""
    assert window_s(dispersion) == seconds


@given(st.floats(0.01, 100.0), st.floats(0.0, 10.0))
def test_the_window_grows_with_the_bursts(dispersion, more):
    """Without jumps."""
    shorter, longer = window_s(dispersion), window_s(dispersion + more)
    assert SHORTEST_S <= shorter <= longer <= LONGEST_S
    assert longer - shorter <= 30.0 * more + 30.0


def test_another_window_counts_at_once():
    """What was wanted before is still known."""
    steadiness = Steadiness()
    assert steadiness.decide(4, 0.0, 60.0) == 4
    assert steadiness.decide(2, 50.0, 60.0) == 4
    assert steadiness.decide(2, 70.0, 60.0) == 2
    assert steadiness.decide(2, 80.0, 300.0) == 4


@given(st.lists(st.tuples(st.floats(0.1, 200), st.integers(0, 50)), min_size=1, max_size=100))
def test_it_is_the_maximum_of_the_window(readings):
    """Or a little more, never less; and the same if it is asked for again."""
    steadiness, now, seen = Steadiness(), 0.0, []
    for later_s, desired in readings:
        now += later_s
        seen.append((now, desired))
        decided = steadiness.decide(desired, now)
        assert steadiness.decide(desired, now) == decided
        assert decided >= max(value for at, value in seen if at > now - LONGEST_S)
        assert decided <= max(value for at, value in seen if at > now - 2 * LONGEST_S)
