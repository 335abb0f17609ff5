import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.simulator import replay
from headgate.simulator.fleet import RequestRecord
from headgate.traffic import traces
from headgate.traffic.traces import TimedRequest


def record(at_s: float = 0.0, ttft_s: float = 1.0, **given) -> RequestRecord:
    """A request of 100 tokens, 40 of them cached, that took a second after its first token."""
    made = {
        "number": 0,
        "arrived_s": at_s,
        "ended_s": at_s + ttft_s + 1.0,
        "outcome": "served",
        "endpoint": "a",
        "attempts": 1,
        "prompt_tokens": 100,
        "output_tokens": 11,
        "cached_tokens": 40,
        "first_token_s": at_s + ttft_s,
    }
    return RequestRecord(**{**made, **given})


def test_the_ideal_hit_rate_is_what_an_endless_cache_would_find():
    """Full blocks that any request before had, but never the last token."""

    def prompt(tokens: int, *blocks: int) -> TimedRequest:
        return TimedRequest(at_s=0, prompt_tokens=tokens, output_tokens=1, prefix=blocks, block_tokens=10)

    asked = [prompt(25, 1, 2, 3), prompt(30, 1, 2, 4), prompt(20, 1, 2), prompt(25, 1, 2, 3)]
    assert traces.ideal_hit_rate(asked) == pytest.approx((0 + 20 + 10 + 20) / 100)
    assert traces.ideal_hit_rate([TimedRequest(at_s=0, prompt_tokens=5, output_tokens=1)]) is None


def test_requests_in_flight_are_counted_in_the_windows_they_lie_in():
    """Over windows of one second: half of the first, all of the second, a quarter of the third."""
    records = [record(at_s=0.5, ended_s=2.25), record(at_s=3.0, ended_s=4.0, endpoint="b", ttft_s=0.5)]
    found = replay.series(records, ["a", "b"], windows=4)
    assert found.window_s == 1.0
    assert found.in_flight == {"a": [0.5, 1.0, 0.25, 0.0], "b": [0.0, 0.0, 0.0, 1.0]}
    assert found.ttft_p50_s == [1.0, None, None, 0.5]
    assert found.hit_rate == [0.4, None, None, 0.4]


def test_a_refused_request_is_in_no_series_but_in_time():
    """It was with nobody, and has neither a first token nor hits."""
    refused = record(outcome="refused", endpoint="", first_token_s=None, ended_s=2.0, cached_tokens=0)
    found = replay.series([refused], ["a"], windows=2)
    assert (found.in_flight, found.ttft_p90_s, found.hit_rate) == ({"a": [0, 0]}, [None] * 2, [None] * 2)


@given(st.integers(0, 10_000), st.integers(1, 30))
def test_no_time_in_flight_is_lost_between_windows(seed, windows):
    """All windows together have exactly the time that requests were there."""
    rng = random.Random(seed)
    times = [(at, at + rng.uniform(0, 5)) for at in (rng.uniform(0, 50) for _ in range(20))]
    records = [record(at_s=at, ended_s=ended, endpoint=rng.choice("abc")) for at, ended in times]
    found = replay.series(records, list("abc"), windows=windows)
    held = sum(sum(row) for row in found.in_flight.values()) * found.window_s
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


def test_a_request_counts_where_it_is_prefilled_and_then_where_it_is_decoded():
    """Up to its first token, and from there on; without one it was never decoded."""
    apart = record(at_s=0.0, ttft_s=1.0, ended_s=3.0, prefill_endpoint="p")
    lost = record(at_s=3.0, ended_s=4.0, first_token_s=None, outcome="failed", prefill_endpoint="p")
    found = replay.series([apart, lost], ["p", "a"], windows=4)
    assert found.in_flight == {"p": [1.0, 0.0, 0.0, 1.0], "a": [0.0, 1.0, 1.0, 0.0]}
