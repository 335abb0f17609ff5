"""What a new value is compared with: the newest of the earlier ones that is old enough (A29)."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.autoscaling.windows import MOST_SNAPSHOTS, Snapshots


def test_the_newest_value_that_is_old_enough_counts() -> None:
    """A29"""
    snapshots: Snapshots[str] = Snapshots(fresh_s=10, expire_s=15)
    for at, name in ((1, "foo"), (3, "bar"), (5, "quz"), (7, "abc")):
        snapshots.add(at, name)
    found = {now: snapshots.base(now) for now in (7, 12, 14, 16, 21, 23)}
    assert found == {7: None, 12: (1, "foo"), 14: (3, "bar"), 16: (5, "quz"), 21: (7, "abc"), 23: None}


def test_of_a_short_past_the_oldest_value_counts() -> None:
    """Once it is a little old."""
    snapshots: Snapshots[int] = Snapshots(fresh_s=60, expire_s=300, least_s=5)
    for at in (0, 3, 6):
        snapshots.add(at, at)
    assert [snapshots.base(now) for now in (4, 5, 30, 64)] == [None, (0, 0), (0, 0), (3, 3)]


def test_a_clock_that_is_set_back_leaves_nothing_in_the_future() -> None:
    snapshots: Snapshots[int] = Snapshots(fresh_s=10, expire_s=60)
    snapshots.add(1_000, 1)
    snapshots.add(5, 2)
    assert snapshots.base(15) == (5, 2)


@given(st.lists(st.floats(0.1, 100), max_size=200), st.floats(0, 400))
def test_what_is_asked_for_later_is_kept(gaps: list[float], after_s: float) -> None:
    """Dropped values change no answer, and few are kept."""
    snapshots: Snapshots[float] = Snapshots(fresh_s=60, expire_s=300)
    now, times = 0.0, []
    for gap in gaps:
        now += gap
        times.append(now)
        snapshots.add(now, now)
        assert len(snapshots) <= MOST_SNAPSHOTS
    found = snapshots.base(now + after_s)
    old = [at for at in times[-MOST_SNAPSHOTS:] if 60 <= now + after_s - at <= 300]
    assert (found and found[0]) == (old[-1] if old else None)
