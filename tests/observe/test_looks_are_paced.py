"""How often an engine is looked at follows from how near it is to making requests wait, and from the cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.fleet import EngineReading
from headgate.observe.pace import ENGINE_SHARE, LONGEST_S, Pace

PACE = Pace(rest_s=1.0, quick_s=0.1)


def reading(**figures):
    return EngineReading(at=0.0, **figures)


@pytest.mark.parametrize(
    ("figures", "after_s"),
    [
        ({}, 1.0),
        ({"waiting": 0, "kv_usage": 0.3}, 1.0),
        ({"waiting": 1, "kv_usage": 0.3}, 0.1),
        ({"waiting": 0, "kv_usage": 0.95}, 0.1),
        ({"waiting": 0, "kv_usage": 0.7}, pytest.approx(0.1**0.5)),
    ],
)
def test_a_pressed_engine_is_looked_at_more_often(figures, after_s):
    """Between rest and saturation, the pace rises with the use of the cache."""
    assert PACE.after(reading(**figures), 0.001) == after_s


def test_an_engine_that_is_slow_with_its_page_is_spared():
    """At most a twentieth of its time goes into pages, however pressed it is."""
    assert PACE.after(reading(waiting=9), 0.05) == pytest.approx(0.05 / ENGINE_SHARE)
    shared = Pace(rest_s=1.0, quick_s=0.1, lookers=4)
    assert shared.after(reading(waiting=9), 0.05) == pytest.approx(4 * 0.05 / ENGINE_SHARE)


def test_many_engines_share_what_the_gateway_reads():
    """A reading of one among five hundred, at a hundred pages a second, is not stale for its age of 5 s."""
    assert PACE.stale_s == 5.0
    assert Pace(rest_s=1.0, quick_s=0.1, round_s=500 / 100).stale_s == 12.0


def test_engines_that_fail_are_looked_at_less_and_less():
    """Up to twice a minute, so that one that comes back is noticed."""
    waits = [PACE.after_failures(failures) for failures in range(1, 40)]
    assert waits[:5] == [2.0, 4.0, 8.0, 16.0, LONGEST_S]
    assert set(waits[5:]) == {LONGEST_S}


@given(
    st.floats(0.05, 3600),
    st.floats(0.01, 3600),
    st.floats(0, 1000),
    st.integers(0, 9),
    st.floats(0, 1) | st.none(),
)
def test_looks_are_within_their_bounds(rest_s, quick_s, took_s, waiting, usage):
    """Never more often than the quick pace, never more seldom than at rest but for the cost."""
    pace = Pace(rest_s=rest_s, quick_s=quick_s)
    after_s = pace.after(reading(waiting=waiting, kv_usage=usage), took_s)
    assert after_s >= min(quick_s, rest_s) * 0.999
    assert after_s <= max(rest_s, LONGEST_S)
