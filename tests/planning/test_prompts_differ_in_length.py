"""Replicas are sized for prompts of different lengths: the longest ones have their first token late."""

import math
import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.planning import lengths, system
from headgate.planning.candidates import candidates
from headgate.planning.queueing import analyze, late_share
from headgate.planning.replica import ModelError, Profile, Replica
from headgate.planning.sizing import Infeasible, Sizing, Targets, size
from headgate.planning.spread import Spread

EQUAL = Replica(
    profile=Profile(alpha_ms=10, beta_ms=0.1, gamma_ms=10, delta_ms=0.3),
    input_tokens=1000,
    output_tokens=100,
    max_batch=64,
    max_queue=640,
)


def spread(value: float) -> Replica:
    return msgspec.structs.replace(EQUAL, prompt_spread=value)


@given(st.floats(0.01, 20))
def test_shares_keep_mean_and_most_of_the_variance(value) -> None:
    """Within a share, all prompts count as equal."""
    found = lengths.of(np.array([value]))
    mean = found.shares @ found.factors[0]
    assert found.shares.sum() == pytest.approx(1)
    assert mean == pytest.approx(1)
    assert list(found.factors[0]) == sorted(found.factors[0])
    variance = found.shares @ (found.factors[0] - 1) ** 2
    assert 0.4 * min(value, lengths.MAX_SPREAD) < variance + 0.02 <= value + 0.02


def test_lengths_are_those_of_a_lognormal_sample() -> None:
    """A tenth of the prompts is beyond the 90th percentile, and so on."""
    rng, deviation = random.Random(1), math.sqrt(math.log1p(1.0))
    sample = sorted(rng.lognormvariate(-(deviation**2) / 2, deviation) for _ in range(200_000))
    found = lengths.of(np.array([1.0]))
    ends = np.cumsum(found.shares)
    for below, end, factor in zip([0, *ends], ends, found.factors[0], strict=False):
        part = sample[round(below * len(sample)) : round(end * len(sample))]
        assert factor == pytest.approx(sum(part) / len(part), rel=0.05 if end < 1 else 0.2)


@pytest.mark.parametrize("value", [0.2, 1.0, 2.0])
def test_the_variance_is_found_by_a_quantile(value) -> None:
    deviation = math.sqrt(math.log1p(value))
    high = math.exp(deviation * 1.6448536 - deviation**2 / 2)
    assert lengths.spread_of(high) == pytest.approx(value, rel=1e-4)
    assert lengths.spread_of(0.5) == 0
    assert lengths.spread_of(math.nan) == 0
    assert lengths.spread_of(1e9) <= lengths.MAX_SPREAD


@given(st.floats(0.1, 0.95), st.floats(500, 5000))
@settings(max_examples=20)
def test_equal_prompts_are_the_case_without_spread(load, ttft_ms) -> None:
    """Also beside others in one call."""
    rate = load * EQUAL.max_rate_per_s
    assert late_share(spread(0.0), rate, ttft_ms) == late_share(EQUAL, rate, ttft_ms)
    assert late_share(spread(0.001), rate, ttft_ms) == pytest.approx(
        late_share(EQUAL, rate, ttft_ms), rel=1e-6, abs=1e-9
    )


def test_longer_prompts_are_late_where_the_mean_one_is_not() -> None:
    """An idle replica prefills the mean one in 310 ms; a fifth of the prompts takes longer than 400 ms."""
    rate = 0.001 * EQUAL.max_rate_per_s
    assert late_share(EQUAL, rate, 400) < 0.01
    assert 0.1 < late_share(spread(1.0), rate, 400) < 0.3


def test_a_replica_takes_fewer_requests() -> None:
    """For the same targets; for their mean, lengths make no difference."""
    targets = Targets(ttft_ms=1500)
    equal, differ = size(EQUAL, targets), size(spread(1.0), targets)
    assert isinstance(equal, Sizing)
    assert isinstance(differ, Sizing)
    assert differ.ttft_rate_per_s < 0.9 * equal.ttft_rate_per_s
    at_limit = differ.at_limit
    assert at_limit.stalled_ttft_percentile_ms == pytest.approx(1500, rel=1e-3)
    mean = Targets(ttft_ms=1500, percentile=None)
    assert size(EQUAL, mean)[:4] == size(spread(1.0), mean)[:4]


def test_a_target_that_too_many_prompts_miss_alone_is_infeasible() -> None:
    """The best possible value is that of the prompts at the percentile."""
    found = size(spread(1.0), Targets(ttft_ms=600))
    assert isinstance(found, Infeasible)
    assert found.best_ms > 600
    assert isinstance(size(spread(1.0), Targets(ttft_ms=600, percentile=80)), Sizing)


@given(st.floats(0.05, 4), st.floats(0.05, 0.7))
@settings(max_examples=20)
def test_the_percentile_covers_the_share(value, load) -> None:
    """At most the share that it leaves comes later."""
    model = spread(value)
    rate = load * model.max_rate_per_s
    found = analyze(model, rate, 95).stalled_ttft_percentile_ms
    assert late_share(model, rate, found * (1 + 1e-9)) <= 0.052


def test_wrong_spreads_are_refused() -> None:
    for wrong in (-1, math.nan, math.inf):
        with pytest.raises(ModelError, match="prompt spread"):
            spread(wrong)


def test_the_spread_is_learned_from_readings_of_few_requests() -> None:
    """Each reading has the spread of its own requests alone: their means differ, too."""
    rng, known, deviation = random.Random(3), Spread(), math.sqrt(math.log1p(1.5))
    told = []
    for now in range(0, 3600, 15):
        sizes = [rng.lognormvariate(6, deviation) for _ in range(5)]
        mean = sum(sizes) / len(sizes)
        squares = sum(each**2 for each in sizes) / len(sizes)
        told.append(known.add(squares / mean**2 - 1, mean, len(sizes), float(now)))
    assert told[-1] == pytest.approx(1.5, abs=0.8)
    assert len(set(told[-40:])) <= 6
    assert known.add(0.0, 0.0, 0.0, 3600.0) == told[-1]


def described(*prefills: float) -> system.System:
    """A model with variants of these times for a token of a prompt, and prompts of different lengths."""
    names = [f"gpu{number}" for number in range(len(prefills))]
    load = system.Load(arrival_rate=30, avg_in_tokens=1000, in_tokens_spread=1.0, avg_out_tokens=100)
    return system.System(
        accelerators={name: system.Accelerator(name=name, cost=10) for name in names},
        performance={
            ("m", name): system.Performance(
                name="m",
                acc=name,
                max_batch_size=64,
                decode_parms=system.DecodeParms(alpha=10, beta=0.1),
                prefill_parms=system.PrefillParms(gamma=10, delta=delta),
            )
            for name, delta in zip(names, prefills, strict=True)
        },
        classes={
            "c": system.ServiceClass(
                name="c", priority=1, model_targets=[system.Target(model="m", itl=60, ttft=1200)]
            )
        },
        servers={
            name: system.Server(
                name=name,
                class_="c",
                model="m",
                demand="m",
                keep_accelerator=True,
                current_alloc=system.AllocationData(accelerator=name, load=load),
            )
            for name in names
        },
    )


def test_variants_that_are_too_slow_for_long_prompts_are_left_out() -> None:
    """Others serve the model."""
    fast, slow = candidates(described(0.1, 0.6))
    assert fast.candidates
    assert not slow.candidates
    assert "TTFT of 1200 ms cannot be met" in slow.rejected[0].reason


def test_a_model_that_has_only_slow_variants_is_planned_for_its_mean_prompt() -> None:
    """Some of its prompts will be late on each of them, and without a plan, all."""
    for entry in candidates(described(0.6, 0.7)):
        assert entry.candidates
        assert not entry.rejected
