"""An engine that does not serve prompts in the order of their arrival shows it; its queue is kept by that."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet.order import LATE_S, ServingOrder

TOKEN_S = 1e-4


def load() -> fleet.EndpointState:
    return fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 8000))


class ShortestFirst:
    """One prompt after the other, of those that wait always the shortest."""

    def __init__(self, seed: int) -> None:
        self.load = load()
        self.now = 0.0
        self._rng = random.Random(seed)
        self._waiting: list[fleet.Booking] = []

    @property
    def owed_tokens(self) -> int:
        return sum(booking.uncached_tokens for booking in self._waiting)

    def serve(self, prompts: int, waiting: int = 8) -> None:
        """So many prompts, beside which so many wait."""
        for _ in range(prompts):
            while len(self._waiting) < waiting:
                self._waiting.append(self.load.book(self._rng.randrange(500, 20_000), 0, self.now))
            shortest = min(self._waiting, key=lambda booking: booking.uncached_tokens)
            self._waiting.remove(shortest)
            self.now += shortest.uncached_tokens * TOKEN_S
            shortest.first_token(self.now)
            shortest.end(self.now)


@given(st.integers(0, 99))
def test_what_was_overtaken_is_still_owed(seed):
    """A short prompt that goes first takes only itself out of the queue: the long ones wait behind it."""
    engine = ShortestFirst(seed)
    engine.serve(60)
    assert engine.load.estimator.queue_s(engine.now) == pytest.approx(engine.owed_tokens * TOKEN_S, rel=0.15)


@given(st.integers(0, 99))
def test_the_rate_is_learned_in_any_order(seed):
    """What took some time is the prompt that was served, and not all that were booked before it."""
    engine = ShortestFirst(seed)
    engine.serve(200)
    assert engine.load.estimator.rates.token_s == pytest.approx(TOKEN_S, rel=0.1)


def test_first_tokens_of_one_step_come_in_any_order():
    """Connections are read in no order: what is a moment late was not overtaken, and what is behind it in the
    queue is not owed."""
    endpoint, rng, now = load(), random.Random(1), 0.0
    for _ in range(100):
        together = [endpoint.book(300, 0, now) for _ in range(6)]
        behind = endpoint.book(4_000, 0, now)
        rng.shuffle(together)
        now += 6 * 300 * TOKEN_S
        for at, booking in enumerate(together):
            booking.first_token(now + at * LATE_S / 10)
        now += 4_000 * TOKEN_S
        behind.first_token(now)
        for booking in (*together, behind):
            booking.end(now)
    last = endpoint.book(300, 0, now)
    endpoint.book(300, 0, now)
    last.first_token(now + 300 * TOKEN_S)
    assert endpoint.estimator.queue_s(now + 300 * TOKEN_S) == pytest.approx(301 * TOKEN_S, rel=0.2)


def test_an_order_is_believed_again():
    """It takes more than one that was overtaken to lose it, and a hundred that were not to have it back."""
    order = ServingOrder()
    order.record(1.0)
    assert order.is_kept
    order.record(1.0)
    assert not order.is_kept
    for _ in range(32):
        order.record(0.0)
    assert not order.is_kept
    for _ in range(100):
        order.record(0.0)
    assert order.is_kept


def test_answers_in_one_piece_are_passed_as_the_work_goes_on():
    """Half of the prompts are of those. Nobody sees them served, but the engine has worked on them as well
    in the time that the others do not account for."""
    engine = ShortestFirst(3)
    engine.serve(60)
    for _ in range(30):
        whole = engine.load.book(600, 0, engine.now, is_streamed=False)
        engine.now += 600 * TOKEN_S
        engine.serve(1)
        whole.end(engine.now, 1)
    assert engine.load.estimator.queue_s(engine.now) == pytest.approx(engine.owed_tokens * TOKEN_S, rel=0.2)
