"""Histograms and the snapshots that they are compared with (A29, A30)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.autoscaling.histograms import Bucket, HistogramError, difference, merged, quantile
from headgate.autoscaling.windows import Snapshots


def histogram(*counts: float) -> list[Bucket]:
    return [Bucket(upper, count) for upper, count in zip((0.5, 0.75, math.inf), counts, strict=True)]


def test_a_quantile_of_what_was_counted_between_two_readings() -> None:
    """A30"""
    counted = difference(histogram(2, 9, 10), histogram(2, 4, 5))
    assert quantile(counted, 0.5) == pytest.approx(0.65)
    assert quantile(histogram(4, 8, 10), 1.0) == pytest.approx(1.5)
    assert quantile(difference(histogram(2, 4, 5), histogram(2, 4, 5)), 0.95) == 0


def test_counts_that_fall_and_other_buckets_are_errors() -> None:
    """A30"""
    with pytest.raises(HistogramError, match=r"up to 0\.5 fell"):
        difference(histogram(1, 4, 5), histogram(2, 4, 5))
    with pytest.raises(HistogramError, match=r"up to 0\.75 fell"):
        difference(histogram(4, 4, 6), histogram(2, 3, 4))
    with pytest.raises(HistogramError, match="fell"):
        quantile(histogram(5, 4, 6), 0.5)
    with pytest.raises(HistogramError, match="different buckets"):
        difference(histogram(1, 1, 1), histogram(1, 1, 1)[:2])
    with pytest.raises(HistogramError, match="merged"):
        merged([histogram(1, 1, 1), histogram(1, 1, 1)[:2]])


def test_series_of_several_pods_are_one_histogram() -> None:
    assert merged([histogram(1, 2, 3), histogram(10, 20, 30)]) == tuple(histogram(11, 22, 33))
    assert merged([]) == ()
    assert quantile((), 0.95) == 0


@given(st.lists(st.integers(0, 50), min_size=3, max_size=3), st.floats(0.01, 1), st.floats(0.01, 1))
def test_quantiles_rise_and_stay_inside_the_buckets(counts: list[int], one: float, other: float) -> None:
    first, second, third = counts
    counted = histogram(first, first + second, first + second + third)
    low, high = quantile(counted, min(one, other)), quantile(counted, max(one, other))
    assert 0 <= low <= high <= 1.5


def test_the_base_of_a_difference_is_the_newest_snapshot_that_is_old_enough() -> None:
    """A29"""
    snapshots = Snapshots(fresh_s=10, expire_s=15)
    for at, name in ((1, "foo"), (3, "bar"), (5, "quz"), (7, "abc")):
        snapshots = snapshots.with_value(at, name)
    found = {now: snapshots.base(now) for now in (7, 12, 14, 16, 21, 23)}
    assert found == {7: None, 12: "foo", 14: "bar", 16: "quz", 21: "abc", 23: None}


def test_snapshots_do_not_pile_up() -> None:
    snapshots = Snapshots(fresh_s=60, expire_s=300)
    for at in range(0, 3_600, 15):
        snapshots = snapshots.with_value(at, at)
        assert len(snapshots.entries) <= 6
    assert snapshots.base(3_600) == 3_540
