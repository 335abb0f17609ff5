"""Extremes of the last seconds, compared with a list of everything that was seen."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.autoscaling import MetricTarget, Policy, Rate
from headgate.autoscaling.correction import correct
from headgate.autoscaling.history import History
from headgate.autoscaling.windows import (
    LONGEST_S,
    MOST_ENTRIES,
    Entries,
    extreme,
    with_high,
    with_low,
)

steps = st.lists(st.tuples(st.sampled_from([0, 1, 15, 15, 60, 700]), st.integers(0, 20)), max_size=40)


@given(steps, st.integers(1, int(LONGEST_S)), st.booleans())
def test_every_window_has_its_extremes(steps: list[tuple[int, int]], window_s: int, or_at: bool) -> None:
    now, seen = 0.0, []
    highs: Entries = ()
    lows: Entries = ()
    for passed_s, value in steps:
        now += passed_s
        seen.append((now, value))
        highs, lows = with_high(highs, now, value), with_low(lows, now, value)
    since = now - window_s
    inside = [value for at, value in seen if at > since or (or_at and at == since)]
    for entries, expected in ((highs, max), (lows, min)):
        found = extreme(entries, since, or_at=or_at)
        assert (found is None) == (not inside)
        if found is not None:
            assert found[1] == expected(inside)
            assert found[0] == max(at for at, value in seen if value == found[1])


@given(st.integers(1, int(LONGEST_S)))
def test_the_state_is_bounded_and_errs_on_the_side_of_more(window_s: int) -> None:
    """A fall from 1,000 in steps of one keeps 32 entries, of which none hides a higher value."""
    highs: Entries = ()
    for second in range(1_000):
        highs = with_high(highs, float(second), 1_000 - second)
        assert len(highs) <= MOST_ENTRIES
    found = extreme(highs, 999.0 - window_s, or_at=True)
    assert found is not None
    assert found[1] >= min(1_000, window_s)


def test_a_clock_that_is_set_back_extends_windows_by_nothing() -> None:
    highs = with_high(with_high((), 1_000_000.0, 9), 1_000.0, 3)
    assert extreme(highs, 900.0, or_at=True) == (1_000.0, 9)
    later = with_high(highs, 1_000.0 + LONGEST_S + 1, 2)
    assert later == ((1_000.0 + LONGEST_S + 1, 2),)


def test_a_window_of_one_pass_waits_for_one_more() -> None:
    policy = Policy((MetricTarget("load", 1.0),), down=Rate(period_s=0, window_s=15))
    history = History.empty().with_recommendation(0, 9).with_recommendation(5, 4)
    assert correct(policy, history, 15, 9, 4).desired == 9
    assert correct(policy, history, 15.1, 9, 4).desired == 4
