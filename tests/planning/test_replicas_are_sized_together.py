"""Many replicas are sized and analyzed in one go, with the same results as one by one."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.planning import tails
from headgate.planning.queueing import analyze, analyze_all
from headgate.planning.replica import Profile, Replica, Times
from headgate.planning.sizing import Infeasible, Targets, size, sizes

profiles = st.builds(
    Profile,
    alpha_ms=st.floats(0.01, 50),
    beta_ms=st.floats(0, 5),
    gamma_ms=st.floats(0, 300),
    delta_ms=st.floats(0, 1),
)
replicas = st.builds(
    Replica,
    profile=profiles,
    input_tokens=st.one_of(st.just(0), st.floats(1, 4000)),
    output_tokens=st.floats(2, 1000),
    max_batch=st.integers(1, 40),
    max_queue=st.integers(0, 200),
)
targets = st.builds(
    Targets,
    ttft_ms=st.floats(0, 5000),
    itl_ms=st.floats(0, 200),
    percentile=st.one_of(st.none(), st.floats(50, 99.9)),
)


def slow_tokens(batch: int) -> Replica:
    """A lone request has its tokens every 1.5 ms."""
    profile = Profile(alpha_ms=1.0, beta_ms=0.5, gamma_ms=0.0, delta_ms=0.0)
    return Replica(profile=profile, input_tokens=0, output_tokens=2, max_batch=batch, max_queue=0)


@settings(max_examples=15)
@given(st.lists(st.tuples(replicas, targets), min_size=1, max_size=4))
@example([(slow_tokens(batch), Targets(itl_ms=1.0)) for batch in (5, 40)])
def test_sizes_do_not_depend_on_others(wanted) -> None:
    """Whether the batches of others are larger, and whether others are sized for the mean.

    Sums over wider arrays are rounded differently.
    """
    for (replica, own), together in zip(wanted, sizes(wanted), strict=True):
        alone = size(replica, own)
        if isinstance(alone, Infeasible):
            assert isinstance(together, Infeasible)
            assert together.target == alone.target
            assert together[1:] == pytest.approx(alone[1:], rel=1e-9)
        else:
            assert together[:3] == pytest.approx(alone[:3], rel=1e-9)


@settings(max_examples=15)
@given(st.lists(st.tuples(replicas, st.floats(0.01, 1), st.floats(50, 99)), min_size=1, max_size=4))
def test_analyses_do_not_depend_on_others(loads) -> None:
    """In their order."""
    wanted = [(each, share * each.max_rate_per_s, percentile) for each, share, percentile in loads]
    for one, together in zip(wanted, analyze_all(wanted), strict=True):
        assert together == pytest.approx(analyze(*one), rel=1e-6, abs=1e-9)


@given(st.lists(replicas, min_size=1, max_size=4), st.floats(0, 80))
def test_times_are_those_of_each_replica(models, batch) -> None:
    """As arrays."""
    times = Times(models)
    for name in ("prefill_ms", "decode_ms", "service_ms"):
        assert list(getattr(times, name)(batch)) == [getattr(each, name)(batch) for each in models]
    assert list(times.min_rate_per_s) == [each.min_rate_per_s for each in models]
    assert list(times.max_rate_per_s) == [each.max_rate_per_s for each in models]
    assert list(times.steps) == [each.decode_steps for each in models]


def most_by_sum(most: int, mean: float) -> float:
    """The distribution of Poisson, term by term."""
    return math.fsum(math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in range(most + 1))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(-1, 3000), st.floats(1e-6, 3000)), min_size=1, max_size=5))
def test_few_events_are_as_likely_as_their_sum(cases) -> None:
    """Also far away from the mean, and for no events at all."""
    most, mean = np.array([each for each, _ in cases], float), np.array([each for _, each in cases])
    found = tails.poisson_at_most(most, mean)
    assert list(found) == pytest.approx([most_by_sum(*each) for each in cases], rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("queue", [20, 655_360])
def test_events_near_the_mean_are_exact(queue) -> None:
    """Where all terms are small: half of them, and a correction that is known."""
    found = tails.poisson_at_most(np.array([queue - 1.0]), np.array([float(queue)]))[0]
    assert found == pytest.approx(0.5 - 1 / (3 * math.sqrt(2 * math.pi * queue)), rel=1e-3)
