"""Loads of models become observations, and observations of each kind of engine its profile."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.fitting import StateError
from headgate.planning.learned import LearnedProfiles, of_load
from headgate.planning.queueing import analyze
from headgate.planning.replica import Profile, Replica

SPEC = Profile(alpha_ms=20.58, beta_ms=0.41, gamma_ms=5.2, delta_ms=0.1)
TRUE = Profile(alpha_ms=12, beta_ms=0.25, gamma_ms=20, delta_ms=0.03)
KEY = ("llama", "H100", "1")


def test_the_engine_of_the_queueing_model_is_found_again() -> None:
    """From nothing but rates, lengths and mean times over a day, as a Prometheus server has them."""
    rng, learned = random.Random(1), LearnedProfiles()
    for minute in range(600):
        tokens, output = rng.uniform(100, 300), rng.uniform(100, 300)
        replica = Replica(
            profile=TRUE, input_tokens=tokens, output_tokens=output, max_batch=64, max_queue=640
        )
        replicas = rng.randint(1, 5)
        rate = replica.max_rate_per_s * rng.uniform(0.01, 0.95)
        mean = analyze(replica, rate)
        noise = np.exp(np.random.default_rng(minute).normal(0, 0.05, 3))
        seen = of_load(
            arrivals_per_s=rate * replicas * noise[0],
            prompt_tokens=tokens,
            output_tokens=output,
            ttft_ms=mean.ttft_ms * noise[1],
            itl_ms=mean.itl_ms * noise[2],
            replicas=replicas,
            max_batch=64,
        )
        if seen is not None:
            learned.observe(KEY, seen.batch, seen.prompt_tokens, seen.ttft_ms, seen.itl_ms, 60.0 * minute)
    found = learned.profile_of(KEY, SPEC)
    for batch in (1, 8, 48):
        assert found.alpha_ms + found.beta_ms * batch == pytest.approx(
            TRUE.alpha_ms + TRUE.beta_ms * batch, rel=0.1
        )
        assert found.gamma_ms + found.delta_ms * 200 * batch == pytest.approx(
            TRUE.gamma_ms + TRUE.delta_ms * 200 * batch, rel=0.15
        )


AMOUNT = st.one_of(st.floats(), st.floats(0, 1e4))


@given(AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT, st.integers(-1, 9), st.integers(-1, 9))
def test_any_load_is_taken_or_left(
    rate: float,
    prompt: float,
    output: float,
    ttft: float,
    itl: float,
    cached: float,
    replicas: int,
    waiting: int,
) -> None:
    """Without an error, and what is learned stays a profile."""
    seen = of_load(
        arrivals_per_s=rate,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_ms=ttft,
        itl_ms=itl,
        cached_share=cached,
        replicas=replicas,
        waiting=waiting,
        max_batch=64,
    )
    learned = LearnedProfiles()
    if seen is not None:
        for minute in range(30):
            learned.observe(KEY, seen.batch, seen.prompt_tokens, seen.ttft_ms, seen.itl_ms, 60.0 * minute)
    found = learned.profile_of(KEY, SPEC)
    assert all(math.isfinite(getattr(found, name)) for name in found.__struct_fields__)


LOAD = {
    "arrivals_per_s": 1.0,
    "prompt_tokens": 100.0,
    "output_tokens": 100.0,
    "ttft_ms": 50.0,
    "itl_ms": 20.0,
    "replicas": 1,
    "max_batch": 64,
}


def test_the_batch_size_follows_from_the_rate() -> None:
    """One request a second of 2.03 s: two are in service, and one that comes is the third."""
    seen = of_load(**LOAD)
    assert seen is not None
    assert seen.batch == pytest.approx(1 + 0.05 + 99 * 0.02)
    cached = of_load(**LOAD, cached_share=0.25)
    assert cached is not None
    assert cached.prompt_tokens == 75


@pytest.mark.parametrize(
    "change", [{"waiting": 1}, {"max_batch": 3}, {"ttft_ms": 0.0}, {"replicas": 0}, {"cached_share": 1.0}]
)
def test_times_in_queues_teach_nothing(change: dict[str, float]) -> None:
    """Nor does a load that is not known in full."""
    assert of_load(**{**LOAD, **change}) is None


def test_kinds_are_learned_apart_and_forgotten() -> None:
    """By their keys."""
    rng, learned = random.Random(1), LearnedProfiles()
    for minute in range(200):
        batch = rng.uniform(1, 64)
        learned.observe(KEY, batch, 100, 20 + 3 * batch, 12 + 0.25 * batch, 60.0 * minute)
    assert learned.fitted(("llama", "A100", "1"), SPEC) is None
    assert learned.profile_of(("llama", "A100", "1"), SPEC) == SPEC
    assert learned.profile_of(KEY, SPEC).alpha_ms == pytest.approx(12, rel=0.05)
    again = LearnedProfiles.load(learned.dump())
    assert again.profile_of(KEY, SPEC) == learned.profile_of(KEY, SPEC)
    learned.keep_only([])
    assert learned.profile_of(KEY, SPEC) == SPEC


def test_a_changed_spec_takes_effect_at_once() -> None:
    """It bounds what was learned before."""
    learned = LearnedProfiles()
    learned.observe(KEY, 1, 100, 20, 12, 0.0)
    other = Profile(alpha_ms=1, beta_ms=1, gamma_ms=1, delta_ms=1)
    assert learned.profile_of(KEY, SPEC) == SPEC
    assert learned.profile_of(KEY, other) == other


@pytest.mark.parametrize("data", [b"", b"{}", b'[["a", {}]]', b'[[["a"], {"decode": 1}]]'])
def test_a_state_that_is_none_is_refused(data: bytes) -> None:
    """With the reason."""
    with pytest.raises(StateError, match="not the state of"):
        LearnedProfiles.load(data)
