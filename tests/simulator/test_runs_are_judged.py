import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.simulator import replay
from headgate.simulator.replay import Outcome, Slo
from headgate.simulator.traces import TimedRequest


def outcome(at_s: float = 0.0, ttft_s: float | None = 1.0, **given) -> Outcome:
    """A request of 100 tokens, 40 of them cached, that took a second after its first token."""
    request = TimedRequest(at_s=at_s, prompt_tokens=100, output_tokens=11)
    made = {
        "request": request,
        "status": "served",
        "endpoint": 0,
        "ttft_s": ttft_s,
        "tpot_s": 0.1,
        "ended_s": at_s + (ttft_s or 0) + 1.0,
        "cached_tokens": 40,
    }
    return Outcome(**{**made, **given})


REFUSED = {"status": "refused", "endpoint": None, "ttft_s": None, "tpot_s": None, "cached_tokens": 0}
FAILED = {"status": "failed", "endpoint": 1, "tpot_s": None, "cached_tokens": 0}


def test_a_summary_counts_every_request_once():
    """Served, failed and refused are all requests; times and hits are those of the served."""
    outcomes = [
        *(outcome(at_s=n, ttft_s=(n + 1) / 10) for n in range(8)),
        outcome(at_s=8, ended_s=9, **FAILED),
        outcome(at_s=10, ended_s=10, **REFUSED),
    ]
    summary = replay.summarize(outcomes, ["a", "b"], [3.0, 1.0], Slo(ttft_s=0.4))
    assert (summary.requests, summary.served, summary.failed, summary.refused) == (10, 8, 1, 1)
    assert (summary.rate_per_s, summary.simulated_s) == (1.0, 10.0)
    assert (summary.ttft_s.p50, summary.ttft_s.p90, summary.ttft_s.max) == (0.4, 0.8, 0.8)
    assert summary.goodput.share == summary.ttft_attainment == 0.4
    assert summary.goodput.requests_per_s == 0.4
    assert summary.hit_rate == 0.4
    assert summary.balance == 1.5
    did = [(work.name, work.requests, work.busy_s) for work in summary.endpoints]
    assert did == [
        ("a", 8, 3),
        ("b", 1, 1),
    ]


def test_an_objective_is_met_by_all_its_parts():
    """A slow first token, slow tokens, or no answer at all is no goodput; one token has no gap to miss."""
    slo = Slo(ttft_s=1.0, tpot_s=0.1)
    assert slo.met(outcome())
    assert slo.met(outcome(tpot_s=None))
    assert not slo.met(outcome(ttft_s=1.01))
    assert not slo.met(outcome(tpot_s=0.11))
    assert not slo.met(outcome(**REFUSED))
    assert not slo.met(outcome(**FAILED))


def test_a_run_of_nothing_says_so():
    """No number is made up where there was no request, or none that was served."""
    nothing = replay.summarize([], ["a"], [0.0], Slo(ttft_s=1))
    assert (nothing.requests, nothing.hit_rate, nothing.balance, nothing.ttft_s.p50) == (0, None, None, None)
    refused = replay.summarize([outcome(ended_s=0, **REFUSED)], ["a"], [0.0], Slo(ttft_s=1))
    assert (refused.goodput.share, refused.hit_rate, refused.ttft_s.p99) == (0.0, None, None)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_percentile_is_the_least_value_that_enough_do_not_exceed(values, share):
    """By nearest rank: always one of the values, and no smaller one would do."""
    ordered = sorted(values)
    found = replay.percentile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered) - 1e-9
    assert sum(value < found for value in ordered) < share * len(ordered)


def test_the_ideal_hit_rate_is_what_an_endless_cache_would_find():
    """Full blocks that any request before had, but never the last token."""

    def prompt(tokens: int, *blocks: int) -> TimedRequest:
        return TimedRequest(at_s=0, prompt_tokens=tokens, output_tokens=1, prefix=blocks, block_tokens=10)

    asked = [prompt(25, 1, 2, 3), prompt(30, 1, 2, 4), prompt(20, 1, 2), prompt(25, 1, 2, 3)]
    assert replay.ideal_hit_rate(asked) == pytest.approx((0 + 20 + 10 + 20) / 100)
    assert replay.ideal_hit_rate([TimedRequest(at_s=0, prompt_tokens=5, output_tokens=1)]) is None


def test_requests_in_flight_are_counted_in_the_windows_they_lie_in():
    """Over windows of one second: half of the first, all of the second, a quarter of the third."""
    outcomes = [outcome(at_s=0.5, ended_s=2.25), outcome(at_s=3.0, ended_s=4.0, endpoint=1, ttft_s=0.5)]
    found = replay.series(outcomes, endpoints=2, windows=4)
    assert found.window_s == 1.0
    assert found.in_flight == [[0.5, 1.0, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]]
    assert found.ttft_p50_s == [1.0, None, None, 0.5]
    assert found.hit_rate == [0.4, None, None, 0.4]


@given(st.integers(0, 10_000), st.integers(1, 30))
def test_no_time_in_flight_is_lost_between_windows(seed, windows):
    """All windows together have exactly the time that requests were there."""
    rng = random.Random(seed)
    times = [(at, at + rng.uniform(0, 5)) for at in (rng.uniform(0, 50) for _ in range(20))]
    outcomes = [outcome(at_s=at, ended_s=ended, endpoint=rng.randrange(3)) for at, ended in times]
    found = replay.series(outcomes, endpoints=3, windows=windows)
    held = sum(sum(row) for row in found.in_flight) * found.window_s
    assert held == pytest.approx(sum(ended - at for at, ended in times))


@given(st.floats(0.02, 500), st.floats(0.1, 100))
def test_the_highest_rate_is_found_from_any_start(limit, start):
    """Within the precision, from below, and without trying on for ever."""
    found = replay.highest_rate(lambda rate: 1.0 if rate <= limit else 0.0, start, 0.9, 0.02)
    assert len(found.tried) < 40
    if found.rate_per_s:
        assert found.rate_per_s <= limit
        assert found.rate_per_s >= limit / 1.0201 or found.rate_per_s == max(rate for rate, _ in found.tried)
    else:
        assert limit < start / 2**11


def test_a_fleet_that_carries_nothing_has_no_rate():
    """Twelve tries, then it is said."""
    found = replay.highest_rate(lambda rate: 0.5, 8.0, 0.9, 0.02)
    assert (found.rate_per_s, len(found.tried)) == (0.0, 12)
