"""Of answers in one piece only the end is seen; with their sizes and an engine's figures it teaches a lot."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing

TOKEN_S, STEP_S = 2.5e-4, 0.03


class Engine:
    """Prefills one prompt after the other and decodes at one pace; no answer is streamed."""

    def __init__(self, seed: int, token_s: float = TOKEN_S) -> None:
        self.load = fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 8000))
        self.now = 0.0
        self.free_at = 0.0
        self._token_s = token_s
        self._rng = random.Random(seed)
        self._open: list[tuple[float, float, int, fleet.Booking]] = []

    @property
    def waiting(self) -> int:
        """Prompts that are not taken up yet."""
        return sum(
            first_at - each.uncached_tokens * self._token_s > self.now for _, first_at, _, each in self._open
        )

    def run(self, requests: int, load: float = 0.9, answer_tokens: int = 40, scrapes: bool = False) -> None:
        for _ in range(requests):
            tokens = self._rng.randrange(200, 3_000)
            until = self.now + self._rng.expovariate(load / (1_600 * self._token_s))
            self.wait(until, scrapes)
            self.free_at = max(self.free_at, self.now) + tokens * self._token_s
            answer = self._rng.randrange(1, 2 * answer_tokens)
            booking = self.load.book(tokens, 0, self.now, is_streamed=False)
            self._open.append((self.free_at + (answer - 1) * STEP_S, self.free_at, answer, booking))

    def wait(self, until: float, scrapes: bool = False) -> None:
        """What ends by then does, and the engine's page is read once a second."""
        while self.now < until:
            next_s = min(until, int(self.now) + 1.0)
            for entry in sorted(self._open, key=lambda each: each[0]):
                if entry[0] <= next_s:
                    self._open.remove(entry)
                    entry[3].first_token(entry[0])
                    entry[3].end(entry[0], entry[2])
            self.now = next_s
            if scrapes and next_s == int(next_s):
                self.read()

    def read(self) -> None:
        waiting = self.waiting
        self.load.read(
            fleet.EngineReading(
                at=self.now,
                waiting=waiting,
                running=len(self._open) - waiting,
                tpot_s=STEP_S,
                tpot_at=self.now,
            )
        )


@given(st.integers(0, 99), st.booleans())
def test_rates_are_learned_without_streams(seed, scrapes):
    """From how long answers took and how many tokens they had, also where the engine says nothing."""
    engine = Engine(seed)
    engine.run(400, scrapes=scrapes)
    rates = engine.load.estimator.rates
    assert rates.observations > 20
    assert rates.token_s == pytest.approx(TOKEN_S, rel=0.25)


@given(st.integers(0, 99))
def test_the_queue_is_known_without_streams(seed):
    """Not ahead of the engine, nor behind it, by more than a prompt or two."""
    engine = Engine(seed)
    engine.run(300, scrapes=True)
    missed_s = []
    for _ in range(100):
        engine.run(1, scrapes=True)
        missed_s.append(
            abs(engine.load.estimator.queue_s(engine.now) - max(0.0, engine.free_at - engine.now))
        )
    assert sum(missed_s) / len(missed_s) < 3_000 * TOKEN_S


def test_embeddings_end_as_they_are_prefilled():
    """There is nothing to decode: they are counted without output tokens."""
    engine = Engine(1)
    now = 0.0
    for _ in range(100):
        booking = engine.load.book(3_000, 0, now, is_streamed=False)
        now += 3_000 * TOKEN_S
        booking.first_token(now)
        booking.end(now, 0)
    assert engine.load.estimator.rates.token_s == pytest.approx(TOKEN_S, rel=0.1)


def test_what_failed_teaches_nothing():
    """An error in one piece comes when it comes."""
    endpoint = Engine(1).load
    for number in range(50):
        endpoint.book(3_000, 0, float(number), is_streamed=False).end(number + 0.001)
    assert endpoint.estimator.rates.observations == 0


def test_a_queue_is_no_longer_than_what_the_engine_has_waiting():
    """It has taken up all: at most the last prompt is still to be prefilled."""
    endpoint = Engine(1).load
    for _ in range(10):
        endpoint.book(10_000, 0, 0.0, is_streamed=False)
    token_s = endpoint.estimator.rates.token_s
    assert endpoint.estimator.queue_s(1.0) > 80_000 * token_s
    endpoint.read(fleet.EngineReading(at=1.0, waiting=0, running=10))
    assert endpoint.estimator.queue_s(1.0) <= 11_000 * endpoint.estimator.rates.token_s * 1.2


def test_a_queue_is_no_shorter_than_what_the_engine_has_waiting():
    """It takes far longer than is known: the clock has run out, and nine prompts are still there."""
    endpoint = Engine(1).load
    for _ in range(10):
        endpoint.book(1_000, 0, 0.0, is_streamed=False)
    assert endpoint.estimator.queue_s(20.0) == 0.0
    endpoint.read(fleet.EngineReading(at=20.0, waiting=9, running=1))
    assert endpoint.estimator.queue_s(20.0) >= 9_000 * fleet.Rates().token_s


def test_what_was_sent_just_now_may_not_be_in_a_reading():
    """The engine has not taken it in yet: that nothing waits says nothing of it."""
    endpoint = Engine(1).load
    for _ in range(10):
        endpoint.book(10_000, 0, 0.9, is_streamed=False)
    before_s = endpoint.estimator.queue_s(1.0)
    endpoint.read(fleet.EngineReading(at=1.0, waiting=0, running=0))
    assert endpoint.estimator.queue_s(1.0) == pytest.approx(before_s)
