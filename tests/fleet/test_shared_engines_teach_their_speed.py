"""While prompts of several gateways wait at an engine, its count of first tokens shows how fast it is."""

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing

TOKEN_S = 4 * fleet.Rates().token_s


class Engine:
    """Prefills one prompt after the other for two gateways, which always have `at_once` requests there."""

    def __init__(self, seed: int, at_once: int = 4, pause_s: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.pause_s = pause_s
        """Between a response and the next request of that client."""
        self.loads = [fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 8000)) for _ in "ab"]
        self.waiting: deque[tuple[fleet.EndpointState, fleet.Booking, int]] = deque()
        self.coming = [(0.01 * number, self.loads[number % 2]) for number in range(2 * at_once)]

    def serve(self, until: float, **figures: float) -> None:
        """Pages are read each second."""
        free_at, read_at, since, first_tokens = 0.0, 0.0, 0.0, 0
        while read_at < until:
            first_at = free_at + self.waiting[0][2] * TOKEN_S if self.waiting else float("inf")
            asked_at = min((at for at, _ in self.coming), default=float("inf"))
            now = min(first_at, asked_at, read_at + 1.0)
            if now == asked_at:
                self._ask(now)
                free_at = now if len(self.waiting) == 1 else free_at
            elif now == first_at:
                free_at, first_tokens = now, first_tokens + 1
                load, booking, _ = self.waiting.popleft()
                booking.first_token(now)
                booking.end(now)
                self.coming.append((now + self.pause_s, load))
            else:
                read_at = now
                for load in self.loads:
                    self._read(load, now, since, first_tokens, figures)
                since, first_tokens = now, 0

    def _ask(self, now: float) -> None:
        at, load = min(self.coming, key=lambda each: each[0])
        self.coming.remove((at, load))
        tokens = self.random.randrange(2000, 8000)
        self.waiting.append((load, load.book(tokens, 0, now), tokens))

    def _read(self, load, now, since, first_tokens, figures) -> None:
        count = len(self.waiting)
        said = {"waiting": max(count - 1, 0), "running": min(count, 1)} | figures
        if first_tokens:
            said |= {"ttft_s": 1.0, "ttft_since": since, "ttft_at": now, "first_tokens": first_tokens}
        load.read(fleet.EngineReading(at=now, **said))


@given(st.integers(0, 99), st.integers(2, 8))
def test_each_gateway_learns_the_speed(seed, at_once):
    """Although none ever sees a prompt that only waited for prompts of its own."""
    engine = Engine(seed, at_once)
    engine.serve(120.0)
    for load in engine.loads:
        assert load.estimator.rates.token_s == pytest.approx(TOKEN_S, rel=0.3)


@given(st.integers(0, 99))
def test_an_engine_that_waits_for_places_teaches_nothing(seed):
    """Prompts wait because its batches or its cache are full, which says nothing of its prefill. A prompt
    that came first may teach."""
    for figures in ({"running": 64}, {"kv_usage": 0.98}):
        engine = Engine(seed)
        engine.serve(60.0, **figures)
        assert all(load.estimator.rates.observations <= 1 for load in engine.loads)


@given(st.integers(0, 99))
def test_time_without_prompts_does_not_count(seed):
    """An engine that is often idle is not taken for a slow one."""
    engine = Engine(seed, at_once=1, pause_s=8.0)
    engine.serve(240.0)
    for load in engine.loads:
        assert load.estimator.rates.token_s < 1.3 * TOKEN_S
