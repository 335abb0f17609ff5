"""Adapters that are not loaded, and KV caches from elsewhere: how long they take is learned for a pool."""

import pytest

from headgate import fleet, routing
from headgate.fleet import EngineReading
from headgate.fleet.pool_rates import PRIOR_ADAPTER_S

TOKENS = 1_000


def pool_of(count):
    ledger, rates = fleet.Ledger(), fleet.Rates()
    loads = [ledger.load(routing.Endpoint(f"default/pod-{n}", "127.0.0.1", 8000 + n)) for n in range(count)]
    for load in loads:
        load.estimator.join(rates)
    return loads


def serve(load, now, adapter="", adapter_s=0.0):
    """Prefills at the pace that is expected, after the time that an adapter takes."""
    rates = load.estimator.rates
    took_s = rates.delay_s + (TOKENS + 1) * rates.token_s + adapter_s
    booking = load.book(TOKENS, 0, now, adapter=adapter)
    booking.first_token(now + took_s)
    booking.end(now + took_s)


def test_a_request_waits_for_its_adapter():
    """The first for it, and not the next; nor one for another that is loaded, nor for the base model."""
    (load,) = pool_of(1)
    estimator = load.estimator
    assert not load.has_adapter("a")
    assert load.has_adapter("")
    load.book(TOKENS, 0, 0.0, adapter="a")
    with_load_s = estimator.queue_s(0.0)
    assert load.has_adapter("a")
    load.book(TOKENS, 0, 0.0, adapter="a")
    prefill_s = TOKENS * estimator.rates.token_s
    assert with_load_s == pytest.approx(PRIOR_ADAPTER_S + prefill_s + estimator.rates.delay_s, rel=0.01)
    assert estimator.queue_s(0.0) == pytest.approx(with_load_s + prefill_s, rel=0.01)
    told = estimator.predicted(TOKENS, 0.0, loads_adapter=True)
    assert told.adapter_s == PRIOR_ADAPTER_S
    assert told.first_token_s == estimator.first_token_s(TOKENS, 0.0) + PRIOR_ADAPTER_S


@pytest.mark.parametrize("adapter_s", [0.02, 2.0])
def test_how_long_a_load_takes_is_learned_by_all_of_a_pool(adapter_s):
    """From those whose first token waited for it; the rate of prefill stays what it was."""
    loads = pool_of(3)
    before = loads[0].estimator.rates.token_s
    for number in range(60):
        serve(loads[number % 2], 10.0 * number, f"adapter-{number}", adapter_s)
    assert loads[2].estimator.predicted(0, 1e3, loads_adapter=True).adapter_s == pytest.approx(
        adapter_s, rel=0.1
    )
    assert loads[0].estimator.rates.token_s == pytest.approx(before, rel=0.02)


def test_one_load_that_took_for_ever_moves_little():
    """A stall is not how long adapters take."""
    (load,) = pool_of(1)
    serve(load, 0.0, "a", 600.0)
    assert load.estimator.rates.pool.adapter_s <= 1.2 * PRIOR_ADAPTER_S


def test_an_engine_drops_the_adapter_used_longest_ago():
    """Its places are told by its metrics; what runs there for others is loaded as well."""
    (load,) = pool_of(1)
    load.read(EngineReading(at=0.0, max_adapters=2, adapters_running=frozenset({"x"})))
    for now, adapter in enumerate("abac"):
        serve(load, float(now), adapter)
    assert [load.has_adapter(each) for each in "abcx"] == [True, False, True, True]
    load.models.clear()
    assert [load.has_adapter(each) for each in "acx"] == [False, False, True]


def test_adapters_taken_for_loaded_are_bounded():
    """Where an engine does not say how many it has places for."""
    (load,) = pool_of(1)
    for number in range(1_000):
        serve(load, float(number), f"adapter-{number}")
    assert len(load.models.used_adapters) == 64


def test_how_long_a_cache_takes_to_come_is_learned():
    """A part that is always the same, and one for each token."""
    first, other = pool_of(2)
    told = first.estimator.predicted_after_handover(4_000, 0.0)
    assert told.first_token_s == told.handover_s > 0
    for number in range(300):
        tokens = 500 + 137 * number % 9_000
        first.estimator.rates.pool.learn_handover(tokens, 0.05 + tokens * 40e-6)
    told = other.estimator.predicted_after_handover(4_000, 0.0)
    assert told.first_token_s == pytest.approx(0.05 + 4_000 * 40e-6, rel=0.05)


def test_terms_are_told_in_words():
    """Those that count for something."""
    told = fleet.Prediction(queue_s=0.5, prefill_s=0.0001, adapter_s=0.25)
    assert told.in_words() == "queue 0.500 + adapter 0.250"
    assert fleet.Prediction(queue_s=0.0).in_words() == "nothing"
