"""Properties of the queueing model for any engine and any request."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.queueing import Analysis, Replicas, analyze, late_share
from headgate.planning.replica import Profile, Replica
from headgate.planning.sizing import Infeasible, Targets, fewest, size

times = st.floats(0, 50)
profiles = st.builds(
    Profile,
    alpha_ms=st.floats(0.01, 50),
    beta_ms=times,
    gamma_ms=st.floats(0.01, 50),
    delta_ms=st.floats(0, 1),
)
replicas = st.builds(
    Replica,
    profile=profiles,
    input_tokens=st.one_of(st.just(0), st.floats(1, 10_000)),
    output_tokens=st.one_of(st.just(1), st.floats(2, 2000)),
    max_batch=st.integers(1, 64),
    max_queue=st.integers(0, 400),
)
loads = st.floats(0.001, 1)
targets = st.builds(
    Targets,
    ttft_ms=st.floats(0, 20_000),
    itl_ms=st.floats(0, 200),
    tokens_per_s=st.sampled_from([0.0, 1.0]),
    percentile=st.one_of(st.none(), st.floats(50, 99.9)),
)


def close(low: float, high: float) -> bool:
    """Whether the second is at least the first, but for rounding."""
    return high >= low * (1 - 1e-9) - 1e-9


@given(replicas, loads, loads)
def test_more_load_is_never_faster(replica, one, other) -> None:
    """Waits, batches, and the shares of late and of blocked requests."""
    few, many = (analyze(replica, load * replica.max_rate_per_s) for load in sorted((one, other)))
    for name in Analysis._fields:
        assert close(getattr(few, name), getattr(many, name)), name


@given(replicas, loads)
def test_quantities_stay_within_their_bounds(replica, load) -> None:
    """Shares between 0 and 1, no negative times, and a batch that the replica has."""
    found = analyze(replica, load * replica.max_rate_per_s)
    assert all(math.isfinite(each) and each >= 0 for each in found)
    assert found.blocked <= 1
    assert found.utilization <= 1
    assert found.in_service <= replica.max_batch * (1 + 1e-9)
    assert found.effective_batch <= replica.max_batch
    assert close(found.throughput_per_s, found.rate_per_s)


def waits_longer(replica: Replica, rate_per_s: float, time_ms: float) -> float:
    """The same probability, summed over what an arrival may find."""
    completions = replica.completions_per_ms()
    logs = [0.0]
    for n in range(replica.max_batch + replica.max_queue):
        step = math.log(rate_per_s / 1000) - math.log(completions[min(n, replica.max_batch - 1)])
        logs.append(logs[-1] + step)
    weights = np.exp(np.array(logs) - max(logs))
    found = weights[:-1] / weights[:-1].sum()
    mean, term, share, late = completions[-1] * time_ms, 0.0, 0.0, 0.0
    for waiting in range(replica.max_queue):
        term = -mean if waiting == 0 else term + math.log(mean) - math.log(waiting)
        share += math.exp(term)
        late += found[replica.max_batch + waiting] * share
    return late


@given(replicas.filter(lambda replica: replica.max_queue > 0), loads, st.floats(1e-3, 5))
def test_the_distribution_of_waits_equals_the_sum_over_all_states(replica, load, relative) -> None:
    """Erlang times after those who wait already."""
    rate = load * replica.max_rate_per_s
    time_ms = relative * replica.max_queue / replica.completions_per_ms()[-1]
    model = Replicas([replica])
    found = model.waits_longer(model.solve(np.array([rate])), np.array([time_ms]))[0]
    assert found == pytest.approx(waits_longer(replica, rate, time_ms), rel=1e-6, abs=1e-9)


@given(replicas, targets)
def test_the_rate_found_meets_the_targets_and_is_the_highest(replica, wanted) -> None:
    """Any higher rate misses one, or leaves the range."""
    found = size(replica, wanted)
    if isinstance(found, Infeasible):
        assert not meets(replica, wanted, replica.min_rate_per_s, slack=-1e-5)
        return
    assert meets(replica, wanted, found.rate_per_s, slack=1e-5)
    higher = found.rate_per_s * (1 + 1e-4)
    highest = replica.max_rate_per_s * (0.9 if wanted.tokens_per_s else 1)
    assert higher > highest or not meets(replica, wanted, higher, slack=-1e-9)


def meets(replica: Replica, wanted: Targets, rate_per_s: float, slack: float) -> bool:
    found = analyze(replica, rate_per_s)
    itl_ms = found.itl_ms if wanted.percentile is None else found.stalled_itl_ms
    if wanted.itl_ms and itl_ms > wanted.itl_ms * (1 + slack):
        return False
    if not wanted.ttft_ms:
        return True
    if wanted.percentile is None:
        return found.ttft_ms <= wanted.ttft_ms * (1 + slack)
    late = late_share(replica, rate_per_s, wanted.ttft_ms * (1 + slack))
    return bool(late <= (1 - wanted.percentile / 100) * (1 + slack))


@given(replicas, targets, st.floats(0.001, 1000))
def test_no_fewer_replicas_would_do(replica, wanted, load) -> None:
    """Each takes no more than its capacity, and one less would have to."""
    found = size(replica, wanted)
    if isinstance(found, Infeasible):
        return
    rate = load * found.capacity_per_s
    number = fewest(rate, found.capacity_per_s)
    assert rate / number <= found.capacity_per_s * (1 + 1e-8)
    assert number == 1 or rate / (number - 1) > found.capacity_per_s
