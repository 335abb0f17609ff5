"""What an engine says of itself corrects what the ledger expects: others' requests, and a full cache."""

import pytest

from headgate import fleet, routing


def load() -> fleet.EndpointState:
    return fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 8000))


def reading(at: float, **said) -> fleet.EngineReading:
    return fleet.EngineReading(at=at, **said)


def test_requests_of_other_gateways_are_in_the_queue():
    """Twelve are there of which three are ours: as nine wait, nine are others', each as long as ours are."""
    endpoint = load()
    for _ in range(3):
        endpoint.book(1_000, 0, 0.0)
    own_s = endpoint.estimator.queue_s(0.0)
    endpoint.read(reading(0.0, waiting=9, running=3))
    each_s = 1_000 * endpoint.estimator.rates.token_s
    assert endpoint.estimator.queue_s(0.0) == pytest.approx(own_s + 9 * each_s)
    assert endpoint.estimator.queue_s(0.5) == pytest.approx(own_s + 9 * each_s - 0.5)


def test_own_requests_that_wait_are_not_counted_twice():
    """The engine says of them what the ledger has."""
    endpoint = load()
    for _ in range(5):
        endpoint.book(1_000, 0, 0.0)
    own_s = endpoint.estimator.queue_s(0.0)
    endpoint.read(reading(0.0, waiting=4, running=1))
    assert endpoint.estimator.queue_s(0.0) == pytest.approx(own_s)


def test_a_full_cache_lets_prompts_wait():
    """Requests give back 500 tokens a second; 4,000 are free, 3,000 wait before a prompt of 6,000."""
    endpoint = load()
    now = 0.0
    for _ in range(200):
        booking = endpoint.book(249, 0, now)
        booking.first_token(now + 0.1)
        booking.end(now + 0.5)
        now += 0.5
    token_s = endpoint.estimator.rates.token_s
    alone_s = endpoint.estimator.first_token_s(6_000, now)
    endpoint.read(reading(now, kv_usage=0.9, blocks=2_500, block_tokens=16))
    endpoint.book(2_999, 0, now)
    predicted_s = endpoint.estimator.first_token_s(6_000, now)
    assert predicted_s > alone_s + 3_000 * token_s
    wait_s = predicted_s - 6_000 * token_s - endpoint.estimator.rates.delay_s
    assert wait_s == pytest.approx((3_000 + 6_000 - 4_000) / 500, rel=0.2)


def test_room_enough_changes_nothing():
    """Nor does a cache of unknown size, however full."""
    endpoint = load()
    endpoint.book(2_999, 0, 0.0)
    before_s = endpoint.estimator.first_token_s(1_000, 0.0)
    endpoint.read(reading(0.0, kv_usage=0.2, blocks=10_000, block_tokens=16))
    assert endpoint.estimator.first_token_s(1_000, 0.0) == before_s
    endpoint.read(reading(0.0, kv_usage=1.0))
    assert endpoint.estimator.first_token_s(1_000, 0.0) == before_s


def test_without_readings_it_is_the_ledger_and_says_so():
    """What was read and is not true any more is forgotten."""
    endpoint = load()
    endpoint.book(999, 0, 0.0)
    ledger_s = endpoint.estimator.queue_s(0.0)
    assert not endpoint.estimator.is_told
    endpoint.read(reading(0.0, waiting=50, running=10, kv_usage=0.99, blocks=100, block_tokens=16))
    assert endpoint.estimator.is_told
    assert endpoint.estimator.queue_s(0.0) > ledger_s
    endpoint.read(None)
    assert not endpoint.estimator.is_told
    assert endpoint.estimator.queue_s(0.0) == ledger_s


def test_nothing_is_learned_while_others_are_in_the_queue():
    """How long our prompts take is not to be seen then."""
    endpoint = load()
    endpoint.read(reading(0.0, waiting=5, running=5))
    for number in range(5):
        booking = endpoint.book(5_000, 0, 10.0 * number)
        booking.first_token(10.0 * number + 9.0)
        booking.end(10.0 * number + 9.5)
    assert endpoint.estimator.rates.observations == 0
