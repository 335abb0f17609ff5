import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.loadtest.histogram import ERROR, LEAST_S, Histogram

TIMES = st.lists(st.floats(LEAST_S, 1e5), min_size=1, max_size=200)


def counted(times: list[float]) -> Histogram:
    histogram = Histogram()
    for each in times:
        histogram.record(each)
    return histogram


@given(TIMES, st.floats(0, 1))
def test_a_percentile_is_near_the_exact_one(times: list[float], share: float) -> None:
    """Within the stated relative error of the time at that rank."""
    exact = sorted(times)[max(math.ceil(share * len(times)), 1) - 1]
    assert counted(times).percentile(share) == pytest.approx(exact, rel=ERROR * 1.001)


@given(TIMES)
def test_extremes_and_mean_are_exact(times: list[float]) -> None:
    """They are kept beside the buckets."""
    histogram = counted(times)
    assert (histogram.least_s, histogram.most_s) == (min(times), max(times))
    assert histogram.percentile(1.0) <= histogram.most_s
    assert histogram.mean_s == pytest.approx(sum(times) / len(times))


@given(TIMES, TIMES)
def test_histograms_add_up(first: list[float], second: list[float]) -> None:
    """The sum of two is that of all their times, also after a way through JSON."""
    total = counted(first)
    total.add(msgspec.json.decode(msgspec.json.encode(counted(second)), type=Histogram))
    whole = counted(first + second)
    assert total.counts == whole.counts
    assert (total.count, total.least_s, total.most_s) == (whole.count, whole.least_s, whole.most_s)


@given(TIMES)
def test_the_distribution_rises_to_one(times: list[float]) -> None:
    """In as many steps as there are buckets."""
    steps = counted(times).steps()
    assert steps == sorted(steps)
    assert steps[-1][1] == 1.0


def test_memory_is_bounded() -> None:
    """By the range of times, however many there are."""
    histogram = Histogram()
    value = 1e-12
    while value < 1e12:
        histogram.record(value)
        histogram.record(-value)
        value *= 1.0005
    assert len(histogram.counts) <= 10_240
    assert histogram.most_s == 1e6
    assert histogram.least_s == 0.0


def test_none_has_no_percentile() -> None:
    """Rather than 0, which looks like a good one."""
    assert math.isnan(Histogram().percentile(0.5))
    assert math.isnan(Histogram().mean_s)
