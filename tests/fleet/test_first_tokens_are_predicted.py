"""How long a first token takes is predicted from what was booked, what time has passed, and what was seen."""

import heapq
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate import fleet, routing
from headgate.fleet.estimator import STEP_TOKENS

PRIOR = fleet.Rates()


def load() -> fleet.EndpointState:
    return fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 8000))


def test_idle_endpoint_has_no_queue():
    """What is predicted is the prompt alone, and the delay."""
    estimator = load().estimator
    assert estimator.queue_s(5.0) == 0.0
    assert estimator.first_token_s(1000, 5.0) == pytest.approx(1000 * PRIOR.token_s + PRIOR.delay_s)


def test_queue_drains_as_time_passes():
    """A sum of open prompts would stay as it is until the next first token."""
    endpoint = load()
    endpoint.book(9_999, 0, 0.0)
    full = endpoint.estimator.queue_s(0.0)
    assert full == pytest.approx(10_000 * PRIOR.token_s + PRIOR.delay_s)
    assert endpoint.estimator.queue_s(0.4) == pytest.approx(full - 0.4)


def test_overdue_first_token_makes_it_longer():
    """Who is late is expected to be late for as long again, and what is behind waits."""
    endpoint = load()
    endpoint.book(9_999, 0, 0.0)
    endpoint.book(4_999, 0, 0.0)
    due = 10_000 * PRIOR.token_s + PRIOR.delay_s
    behind = 5_000 * PRIOR.token_s
    assert endpoint.estimator.queue_s(due) == pytest.approx(behind)
    assert endpoint.estimator.queue_s(due + 7.0) == pytest.approx(behind + 7.0)


def test_first_token_serves_all_before_it():
    """Engines take prompts in their order: what came before is done, also if nothing was seen of it."""
    endpoint = load()
    first = endpoint.book(1_999, 0, 0.0)
    second = endpoint.book(2_999, 0, 0.0)
    endpoint.book(3_999, 0, 0.0)
    second.first_token(0.1)
    # The rates have learned of it meanwhile, and one sequence is decoded beside the queue.
    rates = endpoint.estimator.rates
    token_s = rates.token_s + rates.beside_s / STEP_TOKENS
    assert endpoint.estimator.queue_s(0.1) == pytest.approx(4_000 * token_s)
    before = endpoint.estimator.queue_s(0.1)
    first.first_token(0.1)
    assert endpoint.estimator.queue_s(0.1) == before


def test_given_up_prompts_are_owed_no_more():
    """Their client has left: what is behind them comes sooner."""
    endpoint = load()
    bookings = [endpoint.book(tokens - 1, 0, 0.0) for tokens in (1_000, 2_000, 4_000)]
    bookings[1].end(0.0)
    assert endpoint.estimator.queue_s(0.0) == pytest.approx(5_000 * PRIOR.token_s + PRIOR.delay_s)
    bookings[0].end(0.0)
    assert endpoint.estimator.queue_s(0.0) == pytest.approx(4_000 * PRIOR.token_s + PRIOR.delay_s)
    bookings[2].end(0.0)
    assert endpoint.estimator.queue_s(1.0) == 0.0


def test_an_endpoint_whose_prompts_were_all_given_up_has_no_queue():
    """The delay of an idle endpoint was that of a request that is gone."""
    endpoint = load()
    endpoint.book(0, 0, 0.0).first_token(0.0)
    endpoint.book(0, 0, 0.0).end(0.0)
    assert endpoint.estimator.queue_s(0.0) == 0.0
    endpoint.book(1, 0, 0.0, is_streamed=False)
    assert endpoint.estimator.queue_s(0.0) > 0.0


def test_an_endpoint_without_requests_has_no_queue():
    """An answer in one piece that comes early, or an error, leaves nothing of the prompt in its clock."""
    endpoint = load()
    endpoint.book(4_999, 0, 0.0).end(0.3)
    refused = endpoint.book(750_000, 0, 1.0, is_streamed=False)
    other = endpoint.book(99, 0, 1.0, is_streamed=False)
    refused.end(1.002)
    assert endpoint.estimator.queue_s(1.002) > 70.0  # nobody knows of which prompt the end is telling
    other.end(1.003)
    assert endpoint.estimator.queue_s(1.003) == 0.0
    endpoint.book(999, 0, 2.0)
    assert endpoint.estimator.queue_s(2.0) == pytest.approx(1_000 * PRIOR.token_s + PRIOR.delay_s)


def test_answers_in_one_piece_tell_nothing_of_prefill():
    """The first byte of such an answer is its last: it is not late, and nothing is learned from it."""
    endpoint = load()
    booking = endpoint.book(9_999, 0, 0.0, is_streamed=False)
    prefill_s = 10_000 * PRIOR.token_s + PRIOR.delay_s
    assert endpoint.estimator.queue_s(0.5) == pytest.approx(prefill_s - 0.5, rel=0.01)
    assert endpoint.estimator.queue_s(30.0) == 0.0
    booking.first_token(30.0)
    booking.end(30.0)
    assert endpoint.estimator.rates.observations == 0


def test_endpoints_learn_together():
    """What one has shown is expected of the others."""
    shared = fleet.Rates()
    known, unknown = load(), load()
    known.estimator.join(shared)
    unknown.estimator.join(shared)
    now = 0.0
    for _ in range(40):
        booking = known.book(4_999, 0, now)
        now += 5.0
        booking.first_token(now)
        booking.end(now)
    assert known.estimator.rates.token_s == pytest.approx(1e-3, rel=0.1)
    assert unknown.estimator.first_token_s(5_000, now) > 1.0


@given(st.floats(1e-6, 1e-3), st.integers(0, 99))
def test_predictions_come_true(token_s, seed):
    """On an endpoint that serves in order they are right within a fifth, on average, after a hundred."""
    rng = random.Random(seed)
    endpoint = load()
    free_at = now = 0.0
    due: list[tuple[float, int, fleet.Booking]] = []
    missed, took = 0.0, 0.0
    for number in itertools.count():
        if number == 300:
            break
        now += rng.expovariate(1.0 / (token_s * 7_000))
        while due and due[0][0] <= now:
            at, _, booking = heapq.heappop(due)
            booking.first_token(at)
            booking.end(at)
        tokens = rng.randrange(1, 10_000)
        predicted_s = endpoint.estimator.first_token_s(tokens, now)
        free_at = max(free_at, now) + tokens * token_s * rng.uniform(0.9, 1.1)
        heapq.heappush(due, (free_at, number, endpoint.book(tokens, 0, now)))
        if number >= 100:
            missed += abs(predicted_s - (free_at - now))
            took += free_at - now
    assert missed < 0.2 * took + 200 * 1e-3


class Queue(RuleBasedStateMachine):
    """Whatever happens in whatever order, a queue is never negative, and more tokens never come sooner."""

    def __init__(self) -> None:
        super().__init__()
        self.load = load()
        self.open: list[fleet.Booking] = []
        self.now = self.looked_at = 0.0

    @rule(tokens=st.integers(0, 100_000), is_streamed=st.booleans())
    def book(self, tokens, is_streamed):
        queue_s = self.load.estimator.queue_s(self.now)
        self.open.append(self.load.book(tokens, 0, self.now, is_streamed))
        # One more that decodes lets what is overdue count as a little less so: by twice 1.2 of 2,048 tokens.
        assert self.load.estimator.queue_s(self.now) >= queue_s * (1.0 - 2e-3) - 1e-9

    @rule(seconds=st.floats(0.0, 1000.0))
    def wait(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def first_token(self, data):
        booking = data.draw(st.sampled_from(self.open))
        if not booking.is_prefilled:
            booking.first_token(self.now)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end(self, data):
        booking = data.draw(st.sampled_from(self.open))
        self.open.remove(booking)
        booking.end(self.now, data.draw(st.none() | st.integers(0, 500)))

    @rule(
        waiting=st.none() | st.integers(0, 5),
        pace_s=st.none() | st.floats(1e-3, 1.0),
        first_tokens=st.none() | st.integers(0, 5),
        ttft_s=st.floats(0.0, 1000.0),
    )
    def read(self, waiting, pace_s, first_tokens, ttft_s):
        running = max(len(self.open) - (waiting or 0), 0)
        reading = fleet.EngineReading(
            at=self.now,
            waiting=waiting,
            running=running,
            ttft_s=ttft_s,
            ttft_at=self.now,
            ttft_since=self.looked_at,
            first_tokens=first_tokens,
            tpot_s=pace_s,
            tpot_at=self.now,
        )
        self.looked_at = self.now
        self.load.read(reading)

    @invariant()
    def is_sane(self):
        estimator = self.load.estimator
        assert estimator.queue_s(self.now) >= 0.0
        assert estimator._queue.owed_tokens >= 0
        for loads in (False, True):
            told = estimator.predicted(1000, self.now, loads_adapter=loads)
            summed = estimator.first_token_s(1000, self.now, loads_adapter=loads)
            assert told.first_token_s == pytest.approx(summed)
        assert estimator.first_token_s(1, self.now) <= estimator.first_token_s(1000, self.now)
        if not self.open:
            assert not estimator.awaits_first_token


TestQueue = Queue.TestCase


@pytest.mark.parametrize("slower", [2, 8])
def test_an_overdue_queue_is_never_shorter_than_none(slower):
    """Even where others of the pool have shown since it was booked that all takes longer than was thought."""
    shared = fleet.Rates()
    ledger = fleet.Ledger()
    overdue = ledger.load(routing.Endpoint("overdue", "127.0.0.1", 8000))
    overdue.estimator.join(shared)
    overdue.book(10_000, 50, 0.0)
    for _ in range(20):
        shared.learn(1, 10_000, slower * 1.0)
    late_s = shared.delay_s + 10_001 * shared.token_s
    for later_s in (0.001, 0.1, 1.0, 10.0):
        assert overdue.estimator.queue_s(late_s + later_s) >= later_s * 0.99
