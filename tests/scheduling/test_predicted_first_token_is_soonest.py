"""The default policy picks who will send the first token soonest, with prefill charged at a price."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing, scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling.predicted import in_flight_tokens
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model import EngineConfig, StepCosts
from headgate.traffic.traces import TimedRequest

BLOCK_TOKENS = 64


class Pool:
    """Endpoints that the gateway books on, behind one policy."""

    def __init__(self, endpoints: int = 4, seed: int = 1) -> None:
        ledger = fleet.Ledger()
        self.loads = [
            ledger.load(routing.Endpoint(f"default/pod-{at}", "127.0.0.1", 8000 + at))
            for at in range(endpoints)
        ]
        self.prefixes = PrefixIndex()
        self.policy = scheduling.PredictedFirstToken(self.prefixes)
        self.rng = random.Random(seed)
        self.picked: list[scheduling.Choice] = []

    def pick(self, request: scheduling.Request, now: float) -> scheduling.Choice:
        choice = scheduling.pick(self.policy, request, self.loads, now, self.rng)
        assert choice is not None
        return choice

    def send(self, request: scheduling.Request, now: float) -> fleet.Booking:
        """Picks an endpoint and books the request there, as a delivery does."""
        choice = self.pick(request, now)
        self.picked.append(choice)
        booking = choice.load.book(request.prompt_tokens - choice.cached_tokens, 0, now)
        self.policy.booked(request, choice, now)
        return booking


def prompt(*blocks: int) -> scheduling.Request:
    """One with these blocks."""
    return scheduling.Request(
        model="m", prompt_tokens=len(blocks) * BLOCK_TOKENS, prefix=blocks, block_tokens=BLOCK_TOKENS
    )


def engine(token_s: float) -> EngineConfig:
    """One that takes so long for each prompt token while it decodes nothing."""
    costs = StepCosts(
        base_s=512 * token_s,
        per_decode_sequence_s=token_s,
        per_kv_token_s=token_s / 1_600,
        per_prefill_token_s=0.75 * token_s,
    )
    return EngineConfig(costs=costs, max_model_len=50_000, prefill_budget_tokens=2_048, kv_blocks=100_000)


def imbalance(amounts) -> float:
    amounts = list(amounts)
    return max(amounts) * len(amounts) / sum(amounts)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_burst_of_equal_prompts_spreads(seed):
    """800 at once on 16 endpoints: none gets more than a fifth above the mean."""
    pool = Pool(16, seed)
    for number in range(800):
        pool.send(prompt(*range(1000 * number, 1000 * number + 30)), 0.0)
    assert imbalance(load.requests for load in pool.loads) <= 1.2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_burst_of_unlike_prompts_spreads_as_work(seed):
    """From 64 to 6,400 tokens: what counts is how long each endpoint is busy."""
    pool = Pool(16, seed)
    for number in range(800):
        blocks = pool.rng.randint(1, 100)
        pool.send(prompt(*range(1000 * number, 1000 * number + blocks)), 0.0)
    assert imbalance(load.estimator.queue_s(0.0) for load in pool.loads) <= 1.2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_burst_with_one_beginning_spreads(seed):
    """All begin with the same long instructions, which one endpoint has in its cache: the others prefill
    them too, as the first one's queue grows."""
    pool = Pool(16, seed)
    instructions = range(40)
    pool.send(prompt(*instructions), 0.0).end(5.0)
    for number in range(800):
        pool.send(prompt(*instructions, *range(1000 + 5 * number, 1005 + 5 * number)), 10.0)
    assert imbalance(load.requests for load in pool.loads) <= 1.2


@given(st.integers(0, 2**32))
def test_same_seed_same_decisions(seed):
    """Two runs decide alike, also where endpoints are equal; another seed decides otherwise."""

    def decisions(with_seed):
        pool = Pool(8, with_seed)
        sizes = random.Random(seed)
        for number in range(60):
            request = prompt(*range(sizes.randrange(40)), 10_000 + number)
            booking = pool.send(request, number * 0.05)
            if sizes.random() < 0.5:
                booking.first_token(number * 0.05 + 0.02)
        return [choice.load.endpoint.name for choice in pool.picked]

    assert decisions(seed) == decisions(seed)
    assert decisions(seed) != decisions(seed + 1)


def test_idle_endpoints_share_by_chance():
    """One after the other, all idle: each gets some."""
    pool = Pool(4)
    for number in range(100):
        booking = pool.send(prompt(number), float(number))
        booking.end(number + 0.5)
    assert min(Counter(choice.load.endpoint.name for choice in pool.picked).values()) > 10


def test_a_cache_draws_a_request_that_can_wait():
    """It comes back to who has it, also past a shorter queue, and is prefilled elsewhere past a long one."""
    pool = Pool(2)
    pool.send(prompt(*range(100)), 0.0).end(1.0)
    (home,) = (choice.load for choice in pool.picked)
    other = next(load for load in pool.loads if load is not home)
    now = 10.0
    home.book(3_000, 0, now)
    again = pool.pick(prompt(*range(110)), now)
    assert (again.load, again.cached_tokens) == (home, 100 * BLOCK_TOKENS)
    home.book(30_000, 0, now)
    away = pool.pick(prompt(*range(110)), now)
    assert (away.load, away.cached_tokens) == (other, 0)
    assert away.first_token_s == pytest.approx(other.estimator.first_token_s(110 * BLOCK_TOKENS, now))


def test_prefill_is_dearer_in_a_busy_pool():
    """Where requests wait, one waits longer for the sake of a cache; the price has an end."""
    pool = Pool(2)
    assert pool.policy.price == 1.0
    for number in range(40):
        pool.send(prompt(-number), float(number)).end(number + 0.5)
    assert pool.policy.price < 1.2
    for number in range(200):
        pool.send(prompt(*range(1000 * number, 1000 * number + 200)), 100.0 + number * 0.1)
    assert pool.policy.price == 9.0


def test_a_slow_endpoint_gets_less():
    """One takes four times as long for a token: it is picked where the others' queues outweigh that."""
    pool = Pool(3)
    slow = pool.loads[0]
    for load in pool.loads:
        load.estimator.join(fleet.Rates())
        for number in range(60):
            now = 100.0 * number
            booking = load.book(5_000, 0, now)
            booking.first_token(now + (2.0 if load is slow else 0.5))
            booking.end(now + 3.0)
    for number in range(120):
        pool.send(prompt(*range(1000 * number, 1000 * number + 80)), 10_000.0)
    shares = Counter(choice.load is slow for choice in pool.picked)
    assert 0.05 < shares[True] / 120 < 0.2


def learned(loads, token_s_of):
    """Endpoints that have shown how fast they prefill, and that do nothing now."""
    rates = fleet.Rates()
    for load in loads:
        load.estimator.join(rates)
    for number in range(60):
        for load in loads:
            now = 100.0 * number
            booking = load.book(5_000, 0, now)
            booking.first_token(now + 5_000 * token_s_of(load))
            booking.end(now + 60.0)


def test_what_a_prompt_takes_from_others_costs_the_same_on_a_slow_endpoint():
    """In a flood a prompt goes where it is done first, though the endpoint takes twice as long for it: a slow
    one that idles beside the queue of a fast one would be no help to anybody."""
    pool = Pool(2)
    slow, fast = pool.loads
    learned(pool.loads, lambda load: 2e-4 if load is slow else 1e-4)
    pool.policy.price = 9.0
    fast.book(3_000, 0, 10_000.0)
    request = prompt(*range(80))
    assert pool.pick(request, 10_000.0).load is fast
    fast.book(3_000, 0, 10_000.0)
    choice = pool.pick(request, 10_000.0)
    assert choice.load is slow
    rates = slow.estimator.rates
    assert rates.pool.token_s == pytest.approx(1.4e-4, rel=0.1)
    assert (
        f"prefill at {1 / rates.token_s:.0f}/s (0 are cached), "
        f"which delays others by {8.0 * request.prompt_tokens * rates.pool.token_s:.3f} s; "
        in pool.policy.why(request, slow, choice, 10_000.0)
    )


def test_slow_engines_do_their_share_of_a_flood():
    """Four of eight take twice as long: at four fifths of what all can do they are busy as well, and nobody
    waits behind the fast ones while they idle. The mean TTFT was 1.1 s where each paid the price at its own
    rate."""
    mean_tokens, fast_per_s = 4_000, 16_000
    fast, slow = engine(1 / fast_per_s), engine(2 / fast_per_s)
    rng, now, requests = random.Random(7), 0.0, []
    while (now := now + rng.expovariate(0.8 * 6 * fast_per_s / mean_tokens)) < 60.0:
        tokens = int(min(rng.expovariate(1 / mean_tokens) + 1, 8 * mean_tokens))
        requests.append(TimedRequest(at_s=now, prompt_tokens=tokens, output_tokens=2))
    groups = EngineGroup(name="slow", engine=slow, count=4), EngineGroup(name="fast", engine=fast, count=4)
    policy = scheduling.PredictedFirstToken(PrefixIndex())
    run = run_fleet(requests, FleetDescription(groups=groups), policy, seed=1)
    busy_s = {
        name: sum(each.busy_s for each in run.engines if each.group == name) for name in ("slow", "fast")
    }
    assert run.summary().ttft_s.mean < 0.75
    assert busy_s["slow"] > 0.6 * busy_s["fast"]


def test_who_returns_from_an_ejection_counts_as_slower():
    """By its share: at first it is picked only where the others take ten times as long."""
    pool = Pool(2)
    back, other = pool.loads
    for at in range(back.policy.failures):
        back.failed(float(at))
    now = back.ejection.until + 1.0
    assert back.share(now) == pytest.approx(0.1)
    other.book(1_000, 0, now)
    request = prompt(*range(10))
    alone = pool.policy.pick(request, [back, other], now, pool.rng)
    assert alone is not None
    assert alone.load is other
    other.book(20_000, 0, now)
    alone = pool.policy.pick(request, [back, other], now, pool.rng)
    assert alone is not None
    assert alone.load is back


def test_what_is_given_as_the_reason():
    """Numbers: seconds, tokens, cache, rate, requests."""
    pool = Pool(2)
    pool.send(prompt(*range(100)), 0.0).end(1.0)
    home = pool.picked[0].load
    home.book(4_999, 0, 10.0)
    request = prompt(*range(110))
    choice = pool.pick(request, 10.0)
    assert pool.policy.why(request, home, choice, 10.0) == (
        "first token in 0.604 s (queue 0.520 + prefill 0.084): 640 prompt tokens to prefill at 10000/s "
        "(6400 are cached); 1 request in flight, by the ledger alone"
    )


@pytest.mark.parametrize(("beside_tokens", "weight"), [(0.1, 150.0), (0.8, 201.2), (20.0, 300.0)])
def test_who_is_in_flight_counts_by_what_each_adds_to_a_step(beside_tokens, weight):
    """For each step of the prompt and of the answer, within bounds: among idle queues it decides."""
    pool = Pool(2)
    rates = pool.loads[0].estimator.rates
    pool.loads[1].estimator.join(rates)
    rates.pool.beside_tokens = beside_tokens
    request = scheduling.Request(model="m", prompt_tokens=1024)
    assert in_flight_tokens(request, rates.pool) == pytest.approx(weight)
    pool.loads[0].book(0, 0, 0.0, is_streamed=False)
    assert pool.pick(request, 1.0).load is pool.loads[1]


def test_an_adapter_that_has_to_be_loaded_counts_as_prefill():
    """A queue that is shorter than the load is waited for, a longer one not."""
    pool = Pool(2)
    home, other = pool.loads
    home.book(0, 0, 0.0, adapter="a").end(1.0)
    request = scheduling.Request(model="a", adapter="a", prompt_tokens=100)
    home.book(2_000, 0, 10.0)
    choice = pool.pick(request, 10.0)
    assert choice.load is home
    assert "adapter 0.300" in pool.policy.why(request, other, choice, 10.0)
    home.book(4_000, 0, 10.0)
    assert pool.pick(request, 10.0).load is other
