"""Fewer replicas need to suffice for five minutes; more are planned for at once."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.steadiness import WINDOW_S, Steadiness


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


@given(st.lists(st.tuples(st.floats(0.1, 200), st.integers(0, 50)), min_size=1, max_size=100))
def test_it_is_the_maximum_of_the_window(readings):
    """Or a little more, never less; and the same if it is asked for again."""
    steadiness, now, seen = Steadiness(), 0.0, []
    for later_s, desired in readings:
        now += later_s
        seen.append((now, desired))
        decided = steadiness.decide(desired, now)
        assert steadiness.decide(desired, now) == decided
        assert decided >= max(value for at, value in seen if at > now - WINDOW_S)
        assert decided <= max(value for at, value in seen if at > now - 2 * WINDOW_S)
