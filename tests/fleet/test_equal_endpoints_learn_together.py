"""Endpoints share what they learn until one has shown that it is of another kind, which chance does not."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet.deviation import LARGEST_CHANCE, MIN_OBSERVATIONS, Deviation
from headgate.fleet.estimator import STEP_TOKENS
from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import PredictedFirstToken
from headgate.simulator.fleet import EngineGroup, FleetDescription, Observer, run_fleet
from headgate.simulator.model import PROFILES
from headgate.traffic.traces import TimedRequest

TOKEN_S = 1 / 16_000
SEEDS = st.integers(0, 999)


def load(name: str, rates: fleet.Rates) -> fleet.EndpointState:
    endpoint = fleet.EndpointState(routing.Endpoint(f"default/{name}", "127.0.0.1", 8000))
    endpoint.estimator.join(rates)
    return endpoint


def serve(
    endpoint: fleet.EndpointState, token_s: float, rng: random.Random, prompts: int, now: float = 0.0
) -> float:
    """One prompt after the other, in steps that each has in common with the next: so much of the next one is
    over when its first token comes. Says when the last one is."""
    shared_tokens, bookings = 0.0, []
    for _ in range(prompts):
        tokens = rng.randrange(STEP_TOKENS, 10 * STEP_TOKENS)
        bookings.append(endpoint.book(tokens, 0, now))
    for booking in bookings:
        also_tokens = rng.uniform(0, STEP_TOKENS)
        now += (booking.uncached_tokens - shared_tokens + also_tokens) * token_s
        shared_tokens = also_tokens
        booking.first_token(now)
        booking.end(now)
    return now


@given(SEEDS)
def test_chance_does_not_tell_equal_endpoints_apart(seed):
    """What steps in common make of single prompts leaves all of them at one rate."""
    shared, rng = fleet.Rates(TOKEN_S, 0.01), random.Random(seed)
    endpoints = [load(f"pod-{number}", shared) for number in range(4)]
    for endpoint in endpoints:
        serve(endpoint, TOKEN_S, rng, 60)
    assert all(endpoint.estimator.rates is shared for endpoint in endpoints)


@given(SEEDS, st.integers(1, 4), st.sampled_from((0.1, 0.5, 3.0, 100.0)))
def test_a_wrong_guess_does_not_tell_them_apart(seed, count, factor):
    """All take many times as long as was expected at first, or a tenth of that: they are equal all the
    same."""
    shared, rng = fleet.Rates(TOKEN_S, 0.01), random.Random(seed)
    endpoints = [load(f"pod-{number}", shared) for number in range(count)]
    ends = [0.0] * count
    for _ in range(10):
        for at, endpoint in enumerate(endpoints):
            ends[at] = serve(endpoint, TOKEN_S * factor, rng, 6, ends[at])
    assert all(endpoint.estimator.rates is shared for endpoint in endpoints)
    assert shared.token_s == pytest.approx(TOKEN_S * factor, rel=0.3)


@given(SEEDS, st.sampled_from((0.5, 0.7, 1.5, 2.0, 4.0)))
def test_an_endpoint_of_another_kind_gets_rates_of_its_own(seed, factor):
    """It is known for what it is, and moves those of the others no more."""
    shared, rng = fleet.Rates(TOKEN_S, 0.01), random.Random(seed)
    usual, other = load("usual", shared), load("other", shared)
    serve(usual, TOKEN_S, rng, 40)
    end = serve(other, TOKEN_S * factor, rng, 40)
    assert other.estimator.rates is not shared
    assert other.estimator.rates.token_s == pytest.approx(TOKEN_S * factor, rel=0.3)
    before = shared.token_s
    serve(other, TOKEN_S * factor, rng, 40, end)
    assert shared.token_s == before
    assert usual.estimator.rates is shared


@given(SEEDS, st.sampled_from((0.5, 1.5, 3.0)))
def test_an_endpoint_that_is_as_the_others_again_learns_with_them(seed, factor):
    """A GPU that was too hot for a while, or had a neighbour, is no other kind for good."""
    shared, rng = fleet.Rates(TOKEN_S, 0.01), random.Random(seed)
    usual, other = load("usual", shared), load("other", shared)
    serve(usual, TOKEN_S, rng, 40)
    end = serve(other, TOKEN_S * factor, rng, 40)
    assert other.estimator.rates is not shared
    serve(other, TOKEN_S, rng, 150, end)
    assert other.estimator.rates is shared
    assert shared.token_s == pytest.approx(TOKEN_S, rel=0.2)


class Kept(Observer):
    """Has the endpoints of a run."""

    def begins(self, endpoints):
        self.loads = [endpoint.load for endpoint in endpoints]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_engines_of_one_kind_share_their_rates_in_the_end(seed):
    """Whatever a busy minute of streams and prompts of all lengths made of them in between."""
    rng, now, requests = random.Random(seed), 0.0, []
    while (now := now + rng.expovariate(8.0)) < 60.0:
        prompt, answer = rng.expovariate(1 / 300), rng.expovariate(1 / 200)
        requests.append(TimedRequest(at_s=now, prompt_tokens=int(prompt) + 2, output_tokens=int(answer) + 2))
    engine = msgspec.structs.replace(PROFILES["8b-l40s"].config, step_jitter=0.1)
    fleet_of_six = FleetDescription(
        groups=(EngineGroup(name="engine", engine=engine, count=6),), scrape_s=1.0
    )
    kept = Kept()
    run_fleet(requests, fleet_of_six, PredictedFirstToken(PrefixIndex()), seed=seed, observer=kept)
    assert len({id(load.estimator.rates) for load in kept.loads}) == 1


def test_a_mean_of_what_differs_a_lot_is_no_evidence():
    """Eight prompts that took half as long again on average, but each either twice as long or a little less:
    that may be chance. After many more it is none."""
    deviation = Deviation(fleet.Rates())
    for number in range(MIN_OBSERVATIONS):
        assert deviation.observe(1.0, 0.6 if number % 2 else 2.0) is None
    assert [deviation.observe(1.0, 1.4) for _ in range(60)][-1] is not None


@pytest.mark.parametrize("factor", [0.9 / LARGEST_CHANCE, 1.1 * LARGEST_CHANCE])
def test_a_difference_is_believed_after_some_observations(factor):
    """Not after the first few, and not much later."""
    deviation = Deviation(fleet.Rates())
    for _ in range(MIN_OBSERVATIONS - 1):
        assert deviation.observe(1.0, factor) is None
    assert deviation.observe(1.0, factor) == pytest.approx(factor)


def test_one_surprise_makes_no_other_kind():
    """An engine that stalls once for a minute is the same as before."""
    deviation = Deviation(fleet.Rates())
    for number in range(MIN_OBSERVATIONS):
        assert deviation.observe(0.5, 60.0 if number == 3 else 0.5) is None
