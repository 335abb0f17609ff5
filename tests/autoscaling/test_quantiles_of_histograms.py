"""Quantiles of histograms, and of what was counted between two readings (A30)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.autoscaling.histograms import Bucket, HistogramError, difference, merged, quantile


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
