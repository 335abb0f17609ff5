import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.loadtest import Difference, Record, compare

COUNT = 400


def records(ttft_s: list[float | None], is_good: bool = True) -> list[Record]:
    return [
        Record(number, 0.1 * number, 0.0, "ok" if each is not None else "timeout", each, None, each, 10, 2, 0)
        for number, each in enumerate(ttft_s)
    ]


def by_name(found: list[Difference]) -> dict[str, Difference]:
    return {each.name: each for each in found}


def queueing(seed: int, factor: float = 1.0) -> list[float | None]:
    """Times that depend on the ones before, as of requests in a queue."""
    rng = random.Random(seed)
    wait_s, told = 0.0, list[float | None]()
    for _ in range(COUNT):
        wait_s = max(0.0, 0.9 * wait_s + rng.gauss(0.0, 0.05))
        told.append((0.1 + wait_s) * factor * rng.lognormvariate(0, 0.1))
    return told


def test_a_clear_difference_is_found() -> None:
    """With its size in the interval."""
    found = by_name(compare(records(queueing(1)), records(queueing(1, factor=1.5)), has_slo=False))
    for name in ("TTFT mean", "TTFT p50", "TTFT p90"):
        each = found[name]
        assert each.low is not None
        assert each.high is not None
        assert each.change == pytest.approx(0.5)
        assert each.low <= 0.5 + 1e-9
        assert each.high >= 0.5 - 1e-9
        assert each.is_better is False
    assert "in SLO" not in found
    assert "TPOT p50" not in found


def test_the_interval_contains_no_difference_about_as_often_as_it_says() -> None:
    """Runs of the same server: at 95 %, few of forty comparisons find a difference of the mean."""
    wrong = sum(
        by_name(compare(records(queueing(seed)), records(queueing(1000 + seed)), has_slo=False))[
            "TTFT mean"
        ].is_better
        is not None
        for seed in range(40)
    )
    assert wrong <= 8


def test_failures_are_a_share() -> None:
    """And their times are missing, not zero."""
    first = records([0.1] * COUNT)
    second = records([None if number % 4 == 0 else 0.1 for number in range(COUNT)])
    found = by_name(compare(first, second, has_slo=True))
    assert found["failed"].change == pytest.approx(0.25)
    assert found["failed"].is_better is False
    assert found["TTFT p50"].change == pytest.approx(0.0)
    assert found["TTFT p50"].is_better is None


@given(
    st.lists(st.one_of(st.none(), st.floats(1e-6, 1e3)), max_size=40),
    st.lists(st.one_of(st.none(), st.floats(1e-6, 1e3)), max_size=40),
)
def test_any_runs_can_be_compared(first: list[float | None], second: list[float | None]) -> None:
    """Also empty ones, and those in which everything failed."""
    for each in compare(records(first), records(second), has_slo=True):
        for value in (each.first, each.second, each.change, each.low, each.high):
            assert value is None or math.isfinite(value)
        if each.low is not None and each.high is not None:
            assert each.low <= each.high


def test_percentiles_are_those_of_the_histograms() -> None:
    """The least time that the share of all is not longer than."""
    found = by_name(compare(records([0.1, 0.2, 0.3, 0.4]), records([0.2] * 4), has_slo=False))
    assert found["TTFT p50"].first == 0.2
    assert found["TTFT p99"].first == 0.4
    assert found["TTFT p50"].low is None


def test_only_requests_of_both_runs_are_compared() -> None:
    """One run was interrupted."""
    found = by_name(compare(records([0.1] * 100), records([0.1] * 50), has_slo=False))
    assert found["TTFT mean"].change == pytest.approx(0.0)
