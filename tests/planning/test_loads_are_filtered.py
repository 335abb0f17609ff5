"""What a plan is made for: arrivals, the tokens of requests, what waits, and what a trend adds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.load import CLEARED_S, PROMPT_SQUARES, UNBEGUN_TOKENS, Load, LoadFilter, of_signals

AMOUNTS = st.floats(0, 1e9)


def test_signals_are_divided_by_arrivals():
    load = of_signals(
        {
            "headgate:arrivals": 2.0,
            "headgate:prompt_tokens": 1000.0,
            "headgate:cached_tokens": 250.0,
            "headgate:output_tokens": 400.0,
            "headgate:requests_running": 7,
            "headgate:requests_waiting": 3,
            "headgate:kv_usage": 0.5,
            UNBEGUN_TOKENS: 900.0,
            PROMPT_SQUARES: 0.5625,
        }
    )
    assert load == Load(
        arrivals_per_s=2.0,
        prompt_tokens=500.0,
        output_tokens=200.0,
        cached_share=0.25,
        prompt_spread=1.0,
        waiting=3,
        in_engines=7,
        unbegun_tokens=900.0,
    )
    assert of_signals({}) == Load(arrivals_per_s=0.0)


def test_tokens_of_a_pause_are_those_before():
    """Without requests, their sizes are unknown, not 0."""
    known = LoadFilter()
    known.add(Load(arrivals_per_s=4, prompt_tokens=500, output_tokens=200, cached_share=0.25), 0.0)
    for second in range(1, 600):
        load = known.add(Load(arrivals_per_s=0), float(second))
    assert load == Load(arrivals_per_s=0, prompt_tokens=500, output_tokens=200, cached_share=0.25)
    load = known.add(Load(arrivals_per_s=0.2, prompt_tokens=500, output_tokens=200), 600.0)
    assert load.arrivals_per_s > 0, "one request is enough to need a replica"


def test_random_sizes_settle_and_other_ones_count():
    """Prompts that are ten times as long count within a minute."""
    random, known = np.random.default_rng(1), LoadFilter()
    told = []
    for number in range(1, 721):
        mean = 400 if number <= 600 else 4000
        lengths = random.exponential(mean, 150)
        load = Load(arrivals_per_s=10, prompt_tokens=lengths.mean(), output_tokens=100, cached_share=0.5)
        told.append(known.add(load, 15.0 * number))
    assert {round(load.cached_share, 9) for load in told} == {0.5}
    sizes = [load.prompt_tokens for load in told]
    assert sizes[599] == pytest.approx(400, rel=0.05)
    assert len(set(sizes[100:600])) < 5, "noise does not move it"
    assert sizes[603] == pytest.approx(4000, rel=0.3)


def test_what_waits_is_served_within_a_minute():
    """Once it has waited for ten seconds: short queues come and go."""
    known = LoadFilter()

    def arrivals(waiting: int, now: float) -> float:
        return known.add(Load(arrivals_per_s=2, waiting=waiting), now).arrivals_per_s

    assert arrivals(0, 0.0) == 2
    assert arrivals(100, 5.0) == 2
    assert arrivals(0, 10.0) == 2
    assert arrivals(100, 15.0) == 2
    assert arrivals(90, 20.0) == 2
    assert arrivals(120, 25.0) == pytest.approx(2 + 90 / CLEARED_S)
    assert arrivals(0, 30.0) == 2


def test_what_waits_without_arrivals_counts_at_once():
    """Nothing serves it, so nothing would clear it."""
    assert LoadFilter().add(Load(arrivals_per_s=0, waiting=6), 1.0).arrivals_per_s == 6 / CLEARED_S


def test_prompts_that_engines_have_not_begun_wait_as_well():
    """By the tokens of the mean request that no cache has, and no more than there are requests."""
    known = LoadFilter()

    def told(tokens: float, now: float, arrivals: float = 2.0) -> Load:
        load = Load(
            arrivals_per_s=arrivals,
            prompt_tokens=500 if arrivals else 0,
            cached_share=0.2 if arrivals else 0,
            waiting=1,
            in_engines=50,
            unbegun_tokens=tokens,
        )
        return known.add(load, now)

    assert told(0, 0.0).waiting == 1
    assert told(12_000, 5.0).waiting == 31
    assert told(12_000, 15.0).arrivals_per_s == pytest.approx(2 + 31 / CLEARED_S)
    assert told(8_000, 20.0, arrivals=0.0).waiting == 21, "between two bursts"
    assert told(1e6, 25.0).waiting == 51


def test_a_ramp_is_planned_ahead():
    """By the time that replicas take to start, once this was better than the present load."""
    ahead, present = LoadFilter(), LoadFilter()
    for second in range(0, 3600, 5):
        load = Load(arrivals_per_s=20 + second / 20)
        told = ahead.add(load, float(second), start_s=120.0)
        now = present.add(load, float(second))
    assert now.arrivals_per_s == pytest.approx(load.arrivals_per_s, rel=0.1)
    assert now.arrivals_per_s < told.arrivals_per_s < 2 * load.arrivals_per_s
    assert told.arrivals_per_s == pytest.approx(load.arrivals_per_s + 120 / 20, rel=0.1)


def test_a_long_gap_begins_anew():
    known = LoadFilter()
    for second in range(600):
        known.add(Load(arrivals_per_s=20), float(second))
    assert known.add(Load(arrivals_per_s=15), 5000.0).arrivals_per_s == 15
    assert known.add(Load(arrivals_per_s=16), 10.0).arrivals_per_s == 16, "the clock was set back"


@given(
    st.lists(
        st.tuples(
            st.builds(
                Load,
                arrivals_per_s=AMOUNTS,
                prompt_tokens=AMOUNTS,
                output_tokens=AMOUNTS,
                cached_share=st.floats(0, 1),
                waiting=st.integers(0, 10**9),
                in_engines=st.integers(0, 10**9),
                unbegun_tokens=AMOUNTS,
            ),
            st.floats(0, 1000),
        ),
        max_size=60,
    ),
    st.sampled_from([0.0, 90.0]),
)
def test_any_readings_give_a_load(readings, start_s):
    """Finite, within what was measured, and the same if it is asked for again."""
    known, now = LoadFilter(), 0.0
    for load, later_s in readings:
        now += later_s
        told = known.add(load, now, start_s)
        assert known.add(load, now, start_s) == told
        assert 0 <= told.arrivals_per_s <= 2e9 + 2e9 / CLEARED_S
        assert 0 <= told.prompt_tokens <= 1e9 * (1 + 1e-9)
        assert 0 <= told.output_tokens <= 1e9 * (1 + 1e-9)
        assert 0 <= told.cached_share <= 1
