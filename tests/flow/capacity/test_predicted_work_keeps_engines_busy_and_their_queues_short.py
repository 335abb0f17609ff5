"""There is room while an endpoint is about to run out of work, and it is known when that will be."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import routing
from headgate.fleet import EndpointState, EngineReading
from headgate.flow.capacity import PredictedWork


@pytest.fixture
def capacity_of():
    def make(*loads, **settings):
        capacity = PredictedWork(**settings)
        capacity.follow(loads)
        return capacity

    return make


def read(load, at, waiting, running, kv_usage=0.5):
    load.read(EngineReading(at=at, waiting=waiting, running=running, kv_usage=kv_usage))


def test_a_queue_that_is_long_enough_gets_no_more(load_of, capacity_of):
    """And it is known when it will be short enough, if nothing happens until then."""
    load = load_of(requests=1, prompt=1000)
    capacity = capacity_of(load, target_s=0.5)
    while capacity.has_room(0, 0.0):
        load.book(1000, 50, 0.0)
    assert load.estimator.queue_s(0.0) >= 0.5
    at = capacity.room_at(0, 0.0)
    assert 0.0 < at < math.inf
    assert load.estimator.busy_until - at == pytest.approx(0.5, abs=0.002)
    assert not capacity.has_room(0, at - 0.002)


@settings(max_examples=80, deadline=None)
@given(now=st.floats(0.0, 1e6), tokens=st.lists(st.integers(1, 9000), min_size=1, max_size=9))
def test_there_is_room_when_it_was_said_that_there_would_be(now, tokens):
    """To the last bit of a float: who is woken then does not go to sleep again for nothing."""
    load = EndpointState(routing.Endpoint("e", "127.0.0.1", 8000))
    load.estimator.rates.learn(1, 10_000, 1.0)
    for each in tokens:
        load.book(each, 50, now, False)
    capacity = PredictedWork()
    capacity.follow([load])
    at = capacity.room_at(0, now)
    assert capacity.has_room(0, now) or capacity.has_room(0, at)


def test_one_endpoint_with_room_is_enough(load_of, capacity_of):
    """The saturation is that of the least loaded."""
    full, idle = load_of(requests=50, prompt=5000), load_of()
    assert not capacity_of(full).has_room(0, 0.0)
    capacity = capacity_of(full, idle)
    assert capacity.has_room(0, 0.0)
    assert capacity.saturation(0.0) == 0.0
    assert capacity.by_endpoint(0.0)[full.endpoint.name] > 1.0


def test_an_endpoint_with_nothing_in_flight_always_has_room(load_of, capacity_of):
    """Whatever its reading says, the pool does not stand still."""
    assert capacity_of(load_of(500, 1.0)).has_room(0, 0.0)


@pytest.mark.parametrize("count", [1, 3])
def test_endpoints_that_return_have_room_where_there_are_few_others(load_of, capacity_of, count):
    """Else a pool that comes back from an outage works on one request at a time while others wait."""
    loads = [load_of(requests=5, is_known=False) for _ in range(count)]
    for load in loads:
        for _ in range(load.policy.failures):
            load.failed(0.0)
    capacity = capacity_of(*loads)
    assert not capacity.has_room(0, 1.0)
    assert capacity.saturation(1.0) == 1.0
    loads[0].succeeded(1.0)
    assert capacity.has_room(0, 1.0)
    assert capacity.saturation(1.0) < 1.0
    loads[0].failed(2.0)  # one of many
    assert capacity.has_room(0, 2.0)
    well = capacity_of(*loads, load_of(requests=500), load_of(requests=500), load_of(requests=500))
    assert not well.has_room(0, 2.0)


def test_first_tokens_make_room_at_once(load_of, capacity_of):
    """The ledger tells, and no reading has to be waited for."""
    load = load_of()
    capacity = capacity_of(load)
    bookings = [load.book(5000, 50, 0.0) for _ in range(5)]
    assert not capacity.has_room(0, 0.1)
    for booking in bookings:
        booking.first_token(0.1)
    assert capacity.has_room(0, 0.1)


def test_what_waits_in_an_engine_with_a_full_batch_bounds_what_it_gets(load_of, capacity_of):
    """Of 64 in flight 24 wait in every reading, so that it works on 40: it gets two more than those."""
    load = load_of(requests=64, prompt=1, is_streamed=False)
    capacity = capacity_of(load)
    for at in range(1, 4):
        read(load, at, waiting=24, running=40)
        has_room = capacity.has_room(0, at)
    assert not has_room
    assert capacity.saturation(3.0) == pytest.approx(64 / 42)


def test_of_what_waits_in_an_engine_others_have_their_part(load_of, capacity_of):
    """Of 64 requests of two workers 24 wait: each has 20 that the engine works on, and gets two more."""
    load = load_of(requests=32, prompt=1, is_streamed=False)
    capacity = capacity_of(load, target_s=1e6)
    for at in range(1, 4):
        read(load, at, waiting=24, running=40)
        capacity.has_room(0, at)
    assert capacity.saturation(3.0) == pytest.approx(32 / 22)


def test_what_waits_for_a_moment_is_no_queue(load_of, capacity_of):
    """The least of a second counts: answers that end together are followed by requests that come together."""
    load = load_of(requests=64, prompt=1, is_streamed=False)
    capacity = capacity_of(load)
    for tenth in range(10, 60):
        read(load, tenth / 10, waiting=0 if tenth % 7 == 0 else 50, running=64 if tenth % 7 == 0 else 14)
        assert capacity.has_room(0, tenth / 10)


def test_an_engine_that_takes_up_more_each_time_is_not_bounded(load_of, capacity_of):
    """What waits there is about to run: more of it runs at each reading."""
    load = load_of(requests=200, prompt=1, is_streamed=False)
    capacity = capacity_of(load)
    for at in range(1, 6):
        read(load, at, waiting=200 - 30 * at, running=30 * at)
        assert capacity.has_room(0, at)


def test_a_queue_that_stays_in_an_engine_is_halved(load_of, capacity_of):
    """Where prefill is what it has too little of, it runs now more and now fewer."""
    load = load_of(requests=100, prompt=1, is_streamed=False)
    capacity = capacity_of(load)
    read(load, 1.0, waiting=80, running=20)
    assert capacity.has_room(0, 1.0)
    read(load, 2.0, waiting=90, running=10)
    assert not capacity.has_room(0, 2.0)
    assert capacity.saturation(2.0) == pytest.approx(100 / 61)


def test_a_burst_that_is_not_yet_prefilled_is_no_full_batch(load_of, capacity_of):
    """Where the engine has worked on more before, those that wait are about to be taken up."""
    load = load_of(requests=60, prompt=1, is_streamed=False)
    capacity = capacity_of(load)
    read(load, 0.5, waiting=0, running=60)
    assert capacity.has_room(0, 0.5)
    read(load, 1.0, waiting=50, running=10)
    assert capacity.has_room(0, 1.0)
    read(load, 1.5, waiting=50, running=10, kv_usage=0.95)
    assert not capacity.has_room(0, 1.5), "but with a full cache they are not"


def test_what_an_engine_showed_is_known_while_it_rests_and_forgotten_when_it_is_gone(load_of, capacity_of):
    """An endpoint that failed comes back with the bound that it had; one that went away begins anew."""
    load = load_of(requests=10, prompt=0)
    capacity = capacity_of(load, target_s=1e6)
    read(load, 1.0, waiting=4, running=6, kv_usage=0.95)
    assert not capacity.has_room(0, 1.0)
    capacity.follow([], None, [load])
    capacity.follow([load])
    assert not capacity.has_room(0, 2.0)
    load.read(None)
    capacity.follow([])
    capacity.follow([load])
    assert capacity.has_room(0, 2.0)


def test_an_engine_that_takes_more_than_it_did_is_given_more(load_of, capacity_of):
    """The bound is what was seen; it rises with each reading in which nothing waits, by more each time."""
    load = load_of(requests=20, prompt=1, is_streamed=False)
    capacity = capacity_of(load)
    read(load, 1.0, waiting=10, running=10, kv_usage=0.95)
    assert not capacity.has_room(0, 1.0)
    given, at, before = [], 1.0, 20
    for _ in range(4):
        at += 1.0
        read(load, at, waiting=0, running=load.requests)
        while capacity.has_room(0, at):
            load.book(1, 50, at, False)
        given.append(load.requests - before)
        before = load.requests
    assert given == sorted(given)
    assert given[-1] > 4 * given[0] > 0


@pytest.mark.parametrize("learned_s", [1e-5, 1e-1])
def test_an_engine_in_which_nothing_waits_has_room_whatever_was_learned(load_of, capacity_of, learned_s):
    """Seconds for each token of short prompts are mostly the delay; of answers that are not streamed nothing
    is seen that could correct them."""
    load = load_of(is_known=False)
    load.estimator.rates.learn(1, 1, 1.0)
    load.estimator.rates.token_s = learned_s
    capacity = capacity_of(load)
    at = 0.0
    while load.requests < 200 and at < 8.0:
        at += 1.0
        read(load, at, waiting=0, running=load.requests, kv_usage=0.1)
        while capacity.has_room(0, at) and load.requests < 200:
            load.book(60, 50, at, False)
    assert load.requests == 200


def test_prompts_that_are_long_are_given_a_step_at_a_time(load_of, capacity_of):
    """That nothing waits is no reason to send an engine a minute of work."""
    load = load_of(requests=1, prompt=3000, is_streamed=False)
    load.estimator.rates.token_s = 1.0
    capacity = capacity_of(load)
    read(load, 1.0, waiting=0, running=1)
    while capacity.has_room(0, 1.0):
        load.book(3000, 50, 1.0, False)
    assert 2 <= load.requests <= 3


def test_an_engine_that_ends_many_in_a_moment_is_given_as_many(load_of, capacity_of):
    """Few may be in flight just as it is read, and its queue is empty all the time."""
    load = load_of(is_known=False)
    load.estimator.rates.learn(1, 1, 1.0)
    load.estimator.rates.token_s = 1e-4
    capacity = capacity_of(load)
    for second in range(1, 6):
        in_flight = [load.book(350, 5, float(second), False) for _ in range(2)]
        read(load, float(second), waiting=0, running=2, kv_usage=0.1)
        capacity.has_room(0, float(second))
        for each in (*in_flight, *(load.book(350, 5, float(second), False) for _ in range(998))):
            each.end(second + 0.5)
    while capacity.has_room(0, 5.6) and load.requests < 1000:
        load.book(350, 5, 5.6, False)
    assert 200 <= load.requests <= 250, "those of 0.2 s"


def test_streams_are_not_sent_because_nothing_waits(load_of, capacity_of):
    """Their first tokens say what is prefilled: a long prompt that is being prefilled does not wait."""
    load = load_of(requests=2, prompt=5000)
    capacity = capacity_of(load)
    read(load, 0.1, waiting=0, running=2)
    assert not capacity.has_room(0, 0.1)


@pytest.mark.parametrize(
    ("prompt", "token_s", "least_s", "most_s"),
    [(7, 2.5e-3, 0.6, 1.0), (60, 5e-4, 0.3, 0.5), (1500, 2.6e-4, 0.2, 0.6)],
    ids=["7 tokens", "60 tokens", "1,500 tokens"],
)
def test_steps_that_begin_short_prompts_are_kept_filled(
    load_of, capacity_of, prompt, token_s, least_s, most_s
):
    """What each step takes anyway would otherwise be a large part of it. Long prompts fill it at once."""
    load = load_of()
    load.estimator.rates.delay_s, load.estimator.rates.token_s = 0.03, token_s
    capacity = capacity_of(load)
    while capacity.has_room(0, 0.0):
        load.book(prompt, 50, 0.0)
    assert least_s <= load.estimator.queue_s(0.0) <= most_s


def test_an_engine_that_is_busy_with_long_answers_gets_no_more_ahead(load_of, capacity_of):
    """Its steps are filled with what decodes, and what it gets may wait for one of these to end."""
    ahead = []
    for decoding in (0, 200):
        load = load_of()
        for booking in [load.book(0, 300, 0.0) for _ in range(decoding)]:
            booking.first_token(0.5)
        load.book(7, 300, 1.0)
        load.estimator.rates.delay_s, load.estimator.rates.token_s = 0.03, 2.5e-3
        load.estimator.rates.pool.beside_tokens = 0.0
        capacity = capacity_of(load)
        while capacity.has_room(0, 1.0):
            load.book(7, 300, 1.0)
        ahead.append(load.requests - load.decoding)
    assert ahead[1] < ahead[0] / 2


def test_a_shorter_target_is_shorter_for_all(load_of, capacity_of):
    """In the same proportion for prompts by which steps are hard to fill."""
    load = load_of()
    load.estimator.rates.delay_s, load.estimator.rates.token_s = 0.03, 2.5e-3
    sent = []
    for target_s in (0.05, 0.1, 0.2):
        capacity = capacity_of(load, target_s=target_s)
        while capacity.has_room(0, 0.0):
            load.book(7, 50, 0.0)
        sent.append(load.estimator.queue_s(0.0))
    assert sent == pytest.approx([sent[0], 2 * sent[0], 4 * sent[0]], rel=0.2)


def test_without_readings_requests_are_counted(load_of, capacity_of):
    """By what the engine was last seen to work on, or by a bound that is set: never a full stop."""
    load = load_of(requests=9, prompt=1, is_streamed=False)
    capacity = capacity_of(load, without_reading=10)
    assert capacity.has_room(0, 0.0)
    load.book(1, 50, 0.0, False)
    assert not capacity.has_room(0, 0.0)
    read(load, 1.0, waiting=4, running=6, kv_usage=0.95)
    assert not capacity.has_room(0, 1.0)
    load.read(None)
    assert capacity.saturation(1.0) == pytest.approx(10 / 8)


def test_without_readings_a_rate_that_was_learned_holds_no_unseen_prompts(load_of, capacity_of):
    """Nothing would ever show that it is wrong."""
    load = load_of(requests=50, prompt=100_000, is_streamed=False)
    capacity = capacity_of(load, without_reading=60)
    assert capacity.has_room(0, 0.0)
    for _ in range(10):
        load.book(1, 50, 0.0, False)
    assert not capacity.has_room(0, 0.0)


def test_no_endpoint_has_more_than_its_connections(load_of, capacity_of):
    """Whatever it could do."""
    load = load_of(0, 0.1, requests=3, prompt=1)
    assert capacity_of(load, max_requests=4).has_room(0, 0.0)
    assert not capacity_of(load, max_requests=3).has_room(0, 0.0)


def test_endpoints_that_fail_have_no_room(load_of, capacity_of):
    """They would not be picked."""
    failing, full = load_of(0, 0.1, requests=1), load_of(requests=50, prompt=5000)
    capacity = capacity_of(failing, full)
    assert capacity.has_room(0, 0.0)
    failing.failed(0.0)
    assert not capacity.has_room(0, 0.0)


def test_a_guess_holds_nobody_up(load_of, capacity_of):
    """Where no first token was ever seen, nothing is known of how fast prompts are prefilled."""
    load = load_of(requests=50, prompt=100_000, is_streamed=False, is_known=False)
    capacity = capacity_of(load, without_reading=60)
    assert capacity.has_room(0, 0.0)
    for _ in range(10):
        load.book(1, 50, 0.0, False)
    assert not capacity.has_room(0, 0.0), "but requests are counted"


def test_sheddable_requests_do_not_join_a_queue_of_others(load_of, capacity_of):
    """Where nothing of ours is in flight, and engines are busy for other gateways; what matters more goes."""
    load = load_of()
    capacity = capacity_of(load)
    read(load, 1.0, waiting=60, running=100, kv_usage=0.99)
    assert not capacity.has_room(-1, 1.0)
    assert capacity.has_room(0, 1.0)
    read(load, 2.0, waiting=2, running=100, kv_usage=0.99)
    assert capacity.has_room(-1, 2.0)
    read(load, 3.0, waiting=60, running=100)
    load.read(None)
    assert capacity.has_room(-1, 4.0), "of what is not known nobody is refused"


def test_why_sheddable_requests_are_held_is_told(load_of, capacity_of):
    """The saturation says nothing of it: it is 0 where nothing of ours is in flight."""
    loads = load_of(), load_of()
    capacity = capacity_of(*loads)
    for load in loads:
        read(load, 1.0, waiting=60, running=100)
    told = "requests wait in 2 of 2 engines, so these get none of a priority below 0"
    assert capacity.why_full(-1, 1.0) == told
    assert capacity.why_full(0, 1.0) == "its saturation is 0.00"


def test_sheddable_requests_do_not_wait_in_an_engine_beside_ours(load_of, capacity_of):
    """Others are all that we did not send, though as many of ours are in flight; and what waits counts until
    it has its first token, whoever sent it."""
    load = load_of()
    capacity = capacity_of(load)
    for booking in [load.book(1, 50, 0.0) for _ in range(10)]:
        booking.first_token(0.5)
    read(load, 0.6, waiting=0, running=40)
    assert capacity.has_room(-1, 0.6)
    read(load, 1.0, waiting=10, running=12)
    assert not capacity.has_room(-1, 1.0), "ten of others wait, beside ten of ours that run"
    assert capacity.has_room(0, 1.0)
    read(load, 2.0, waiting=0, running=12)
    ours = [load.book(1, 50, 2.0) for _ in range(8)]
    read(load, 2.1, waiting=8, running=10)
    assert not capacity.has_room(-1, 2.1)
    for booking in ours[:6]:
        booking.first_token(2.2)
    assert capacity.has_room(-1, 2.2), "of those that waited, two are left"
