"""Of answers in one piece nobody sees the first token, but engines count them, and say how long they took."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import PredictedFirstToken
from headgate.simulator.fleet import EngineGroup, FleetDescription, Observer, run_fleet
from headgate.simulator.model import EngineConfig, StepCosts
from headgate.traffic.traces import TimedRequest

TOKEN_S, DELAY_S, DECODE_S = 1 / 16_000, 0.03, 1.5
SEEDS = st.integers(0, 99)


class Engine:
    """Prefills one prompt after the other, with a delay where it was idle."""

    def __init__(self) -> None:
        self.load = fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 8000))
        self.looked_at = 0.0
        self.free_at = 0.0
        self.strangers = 0
        """Requests of somebody else, which run."""
        self._begin: list[float] = []
        self._first: list[tuple[float, float, fleet.Booking | None]] = []

    @property
    def rates(self) -> fleet.Rates:
        return self.load.estimator.rates

    def ask(self, tokens: int, now: float, *, is_ours: bool = True) -> None:
        """A prompt comes; the gateway knows of it if it is ours."""
        self._answer(now)
        begins_at = self.free_at if self.free_at > now else now + DELAY_S
        self.free_at = begins_at + tokens * TOKEN_S
        booking = self.load.book(tokens, 0, now, is_streamed=False) if is_ours else None
        self.strangers += not is_ours
        self._begin.append(begins_at)
        self._first.append((self.free_at, now, booking))

    def _answer(self, until: float) -> None:
        """Answers that are complete reach the gateway, and say nothing of the pace."""
        for first_at, _, booking in self._first:
            if booking is not None and not booking.is_over and first_at + DECODE_S <= until:
                booking.first_token(first_at + DECODE_S)
                booking.end(first_at + DECODE_S, round(DECODE_S / 0.01))

    def look(self, now: float, *, is_lost: bool = False) -> None:
        """The page is read: what came since the last look is counted in it."""
        self._answer(now)
        since, self.looked_at = self.looked_at, now
        counted = [at - sent_at for at, sent_at, _ in self._first if since < at <= now]
        waiting = sum(at > now for at in self._begin)
        if not is_lost:
            self.load.read(
                fleet.EngineReading(
                    at=now,
                    waiting=waiting,
                    running=self.load.requests + self.strangers - waiting,
                    ttft_s=sum(counted) / len(counted) if counted else None,
                    ttft_at=now if counted else None,
                    ttft_since=since,
                    first_tokens=len(counted),
                )
            )

    def serve(self, rng: random.Random, prompts: int, per_s: float, size: int, lost: float = 0.0) -> None:
        """Prompts by chance, and a look every second."""
        now = self.looked_at
        for _ in range(prompts):
            now += rng.expovariate(per_s)
            while self.looked_at + 1.0 < now:
                self.look(self.looked_at + 1.0, is_lost=rng.random() < lost)
            self.ask(rng.randrange(size // 4, 2 * size), now)
        self.look(now + 1.0)


@given(SEEDS, st.sampled_from([(0.5, 12_000), (1.2, 9_000), (20.0, 500), (6.0, 300)]))
def test_rates_are_learned_from_what_engines_count(seed, kind):
    """A prompt in each interval or many, on a busy engine or an idle one: how long one takes is found within
    3 % if prompts are long, and within 15 % if they are so short that delays are most of it."""
    per_s, size = kind
    engine = Engine()
    engine.serve(random.Random(seed), round(100 * per_s) + 50, per_s, size)
    rates = engine.rates
    assert rates.delay_s + size * rates.token_s == pytest.approx(DELAY_S + size * TOKEN_S, rel=0.15)
    if size > 5_000:
        assert rates.token_s == pytest.approx(TOKEN_S, rel=0.03)


@given(SEEDS)
def test_the_queue_is_what_was_not_counted(seed):
    """Right after a look it is as long as the engine's own."""
    engine, rng = Engine(), random.Random(seed)
    for _ in range(20):
        engine.serve(rng, 10, 1.2, 9_000)
        queue_s = max(engine.free_at - engine.looked_at, 0.0)
        if engine.rates.observations > 20:
            estimated_s = engine.load.estimator.queue_s(engine.looked_at)
            assert estimated_s == pytest.approx(queue_s, abs=0.15 + 0.1 * queue_s)


@given(SEEDS)
def test_looks_may_fail(seed):
    """What was counted in between is missed, and what comes after it is known again for what it is."""
    engine = Engine()
    engine.serve(random.Random(seed), 400, 0.8, 9_000, lost=0.1)
    assert engine.rates.token_s == pytest.approx(TOKEN_S, rel=0.05)


def test_prompts_of_somebody_else_are_not_taken_for_ours():
    """Where the engine has more requests than were sent to it here, nobody knows whose first tokens it
    counts."""
    engine = Engine()
    for number in range(50):
        engine.ask(100, 2.0 * number, is_ours=False)
        engine.ask(16_000, 2.0 * number)
        engine.look(2.0 * number + 0.5)
        engine.look(2.0 * number + 1.9)
    assert engine.rates.observations == 0


def test_a_prompt_that_failed_is_not_waited_for():
    """The next first token is that of another one."""
    engine = Engine()
    for number in range(40):
        failed = engine.load.book(30_000, 0, 2.0 * number, is_streamed=False)
        failed.end(2.0 * number + 0.01)
        engine.ask(8_000, 2.0 * number + 0.02)
        engine.look(2.0 * number + 1.0)
        engine.look(2.0 * number + 2.0)
    assert engine.rates.token_s == pytest.approx(TOKEN_S, rel=0.05)


class _Loads(Observer):
    def begins(self, endpoints):
        self.loads = [endpoint.load for endpoint in endpoints]


@pytest.mark.parametrize("seed", range(4))
def test_long_answers_beside_long_prompts_do_not_make_an_engine_look_fast(seed):
    """While one prompt is prefilled, the answers of others take ten times as long for each token: told from
    the pace of a moment, prompts would seem to have taken no time at all, and the engine that has the most of
    both would get all the rest."""
    rng, now, requests = random.Random(seed), 0.0, []
    for _ in range(700):
        now += rng.expovariate(4.0)
        prompt_tokens = min(int(rng.lognormvariate(8.8, 1.1)), 100_000)
        requests.append(
            TimedRequest(
                at_s=now,
                prompt_tokens=prompt_tokens,
                output_tokens=rng.randrange(1, 700),
                is_streamed=False,
            )
        )
    engine = EngineConfig(
        costs=StepCosts(
            base_s=0.01,
            per_decode_sequence_s=5e-5,
            per_kv_token_s=3.9e-8,
            per_prefill_token_s=TOKEN_S - 0.01 / 2048,
        ),
        max_model_len=131_072,
        prefill_budget_tokens=2048,
        kv_blocks=20_000,
        max_waiting=10_000,
    )
    groups = (EngineGroup(name="engine", engine=engine, count=6),)
    seen = _Loads()
    run_fleet(
        requests,
        FleetDescription(groups=groups, scrape_s=1.0),
        PredictedFirstToken(PrefixIndex()),
        seed=1,
        observer=seen,
    )
    rates = {id(load.estimator.rates): load.estimator.rates for load in seen.loads}
    assert len(rates) == 1
    (shared,) = rates.values()
    assert shared.token_s == pytest.approx(TOKEN_S, rel=0.1)
