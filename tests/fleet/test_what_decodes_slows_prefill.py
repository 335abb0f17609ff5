"""Sequences that decode make steps longer: by how much is learned, and is a part of what is predicted."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet.estimator import STEP_TOKENS
from headgate.fleet.pool_rates import MAX_BESIDE_TOKENS, MIN_BESIDE_TOKENS, PRIOR_BESIDE_TOKENS

TOKEN_S = fleet.Rates().token_s


def load(rates: fleet.Rates | None = None) -> fleet.EndpointState:
    endpoint = fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 8000))
    if rates is not None:
        endpoint.estimator.join(rates)
    return endpoint


@given(st.floats(0.3, 15.0), st.integers(0, 99))
def test_what_a_sequence_adds_to_a_step_is_found(beside_tokens, seed):
    """From streams beside 1 to 60 others, each within a tenth of the truth: to within a third."""
    pool, rng = fleet.PoolRates(), random.Random(seed)
    for _ in range(400):
        decoding = rng.randint(1, 60)
        pool.learn_pace((150.0 + decoding * beside_tokens) * rng.uniform(0.9, 1.1), decoding)
    assert pool.beside_tokens == pytest.approx(beside_tokens, rel=0.34, abs=0.3)


@given(st.integers(0, 99))
def test_chance_does_not_tell_what_a_sequence_adds(seed):
    """Beside one to five others, steps that vary by a third say next to nothing of it: the guess stays."""
    pool, rng = fleet.PoolRates(), random.Random(seed)
    for _ in range(1_000):
        pool.learn_pace(rng.gauss(300.0, 100.0), rng.uniform(1.0, 6.0))
        assert 0.1 * PRIOR_BESIDE_TOKENS < pool.beside_tokens < 4.0 * PRIOR_BESIDE_TOKENS


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.0, 1e4)), max_size=60))
def test_whatever_streams_tell_it_stays_within_bounds(paces):
    """A step never gets shorter by a sequence more, and one never stops an endpoint."""
    pool = fleet.PoolRates()
    for step_tokens, decoding in paces:
        pool.learn_pace(step_tokens, decoding)
        assert MIN_BESIDE_TOKENS <= pool.beside_tokens <= MAX_BESIDE_TOKENS


def test_more_that_decode_let_a_first_token_come_later():
    """By what each adds to a step, for each step that the prompt takes; and so for what is queued."""
    endpoint = load()
    before = endpoint.estimator.predicted(2 * STEP_TOKENS, 0.0)
    for _ in range(10):
        endpoint.book(0, 0, 0.0, is_streamed=False)
    after = endpoint.estimator.predicted(2 * STEP_TOKENS, 0.0)
    assert before.beside_s == 0.0
    assert after.beside_s == pytest.approx(10 * PRIOR_BESIDE_TOKENS * endpoint.estimator.rates.token_s * 3)
    assert after.prefill_s == pytest.approx(before.prefill_s, rel=0.1)


def test_what_decoded_beside_it_is_not_taken_for_prefill():
    """Prompts beside 0 and beside 50 others teach one rate, which is that of prefill alone."""
    rates, rng = fleet.Rates(), random.Random(1)
    endpoint = load(rates)
    beside_s, now = PRIOR_BESIDE_TOKENS * TOKEN_S, 0.0
    for number in range(200):
        others = [endpoint.book(0, 0, now) for _ in range(50 * (number % 2))]
        for other in others:
            other.first_token(now)
        now += 1.0
        tokens = rng.randrange(1_000, 20_000)
        booking = endpoint.book(tokens, 0, now)
        took_s = 0.02 + tokens * TOKEN_S + len(others) * beside_s * (1 + tokens / STEP_TOKENS)
        assert endpoint.estimator.first_token_s(tokens, now) == pytest.approx(2 * took_s, rel=0.2)
        now += took_s
        booking.first_token(now)
        for each in (booking, *others):
            each.end(now)
    assert endpoint.estimator.rates.token_s == pytest.approx(TOKEN_S, rel=0.03)


def test_a_stream_teaches_its_pace_and_how_many_were_beside_it():
    """Half of its time two were decoded with it, and in half of that something was prefilled."""
    rates = fleet.Rates()
    endpoint = load(rates)
    *others, stream = [endpoint.book(0, 0, 10.0) for _ in range(3)]
    for booking in (*others, stream):
        booking.first_token(10.0)
    decoding_before_s, prefill_before_s = endpoint.estimator.so_far(10.0)
    for other in others:
        other.end(12.0)
    prompt = endpoint.book(1_000, 0, 12.0)
    expected_s = rates.delay_s + 1_001 * rates.token_s
    prompt.first_token(14.0)
    stream.end(14.0)
    stream.paced(101, 14.0)
    decoding_s, prefill_s = endpoint.estimator.so_far(14.0)
    assert rates.is_paced
    assert rates.step_s == pytest.approx(0.04)
    assert (decoding_s - decoding_before_s) / 4.0 == pytest.approx(2.0)
    assert prefill_s - prefill_before_s == pytest.approx(expected_s, rel=0.1)


def test_an_answer_without_a_pace_teaches_none():
    """Of a single token, or of no duration, or without a first token."""
    endpoint = load()
    for tokens, end in ((1, 2.0), (50, 1.0)):
        booking = endpoint.book(10, 0, 0.0)
        booking.first_token(1.0)
        booking.end(end)
        booking.paced(tokens, end)
    failed = endpoint.book(10, 0, 3.0)
    failed.end(4.0)
    failed.paced(50, 4.0)
    assert endpoint.estimator.rates.step_s == 0.0


@pytest.mark.parametrize("after_s", [0.5, 2.0, 30.0])
def test_a_stream_that_ends_during_a_long_prefill_does_not_pay_for_it(after_s):
    """What was prefilled by then is no cost of decoding, up to what the prompt is expected to take."""
    rates = fleet.Rates()
    endpoint = load(rates)
    stream = endpoint.book(0, 0, 10.0)
    stream.first_token(10.0)
    _, prefill_before_s = endpoint.estimator.so_far(10.0)
    endpoint.book(30_000, 0, 10.0)
    expected_s = rates.delay_s + 30_001 * rates.token_s
    stream.end(10.0 + after_s)
    stream.paced(101, 10.0 + after_s)
    _, prefill_s = endpoint.estimator.so_far(10.0 + after_s)
    assert prefill_s - prefill_before_s == pytest.approx(min(after_s, expected_s), rel=0.1)
