"""The queue with bursts: requests that arrive during prefills pile up, since none ends meanwhile."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.queueing import Replicas, analyze, late_share
from headgate.planning.replica import Profile, Replica, Times
from headgate.planning.sizing import Sizing, Targets, size
from headgate.planning.stalls import Stalls, blocking_ms

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
    max_batch=st.integers(1, 20),
    max_queue=st.integers(0, 60),
)
loads = st.floats(0.001, 1)


def chain(replica: Replica, rate_per_s: float) -> tuple[list[float], float]:
    """Probabilities of 0 to all requests between prefills, from the balance of groups and completions, and
    the parameter of the groups' size."""
    blocking = blocking_ms(Times([replica]))[0]
    busy = rate_per_s / 1000 * blocking
    group = 1 - (1 - busy) ** 2
    starts_per_ms = rate_per_s / 1000 * (1 - group) / (1 - busy)
    weights, ahead = [1.0], 1.0
    for n in range(1, replica.max_batch + replica.max_queue + 1):
        size = min(n, replica.max_batch)
        ends_per_ms = size / (replica.service_ms(size) - size * blocking)
        weights.append(starts_per_ms * ahead / ends_per_ms)
        ahead = group * ahead + weights[-1]
    total = math.fsum(weights)
    return [each / total for each in weights], group


def brute_late(replica: Replica, rate_per_s: float, ttft_ms: float) -> float:
    """Share that is blocked, or waits for others to end for longer than is left after its prefill."""
    weights, group = chain(replica, rate_per_s)
    found, ahead = [], 0.0
    for weight in weights[:-1]:
        ahead = ahead * group + weight
        found.append((1 - group) * ahead)
    late = 1 - math.fsum(found)
    mean = replica.completions_per_ms()[-1] * (ttft_ms - replica.prefill_ms(1))
    share = term = 0.0
    for waiting, probability in enumerate(found[replica.max_batch :]):
        term = math.exp(-mean) if waiting == 0 else term * mean / waiting
        share += term
        late += probability * share
    return late


@given(replicas, loads, st.floats(0.01, 3))
def test_as_many_requests_are_late_as_the_sum_over_all_states_has(replica, load, relative) -> None:
    """And those that wait for prefills alone."""
    rate = load * replica.max_rate_per_s
    completions = replica.completions_per_ms()
    if min(1 / completions) - blocking_ms(Times([replica]))[0] < 1e-6:
        return
    ttft_ms = replica.prefill_ms(1) + relative * 20 / completions[-1]
    found = Stalls(Times([replica])).late_share(np.array([rate]), np.array([ttft_ms]))[0]
    least = min(1.0, brute_late(replica, rate, ttft_ms))
    assert found >= least * (1 - 1e-6) - 1e-9
    assert found <= 1


@given(replicas, loads, st.floats(1, 5000))
def test_without_prompts_it_is_the_state_dependent_queue(replica, load, ttft_ms) -> None:
    """Nothing stops the batch."""
    model = Replicas([Replica(**{**_fields(replica), "input_tokens": 0})])
    rate = load * model.max_rate_per_s
    by_queue = model.late_share(model.solve(rate), np.array([ttft_ms]))
    assert Stalls(Times(model.replicas)).late_share(rate, np.array([ttft_ms])) == pytest.approx(
        by_queue, rel=1e-6, abs=1e-9
    )


def _fields(replica: Replica) -> dict:
    return {name: getattr(replica, name) for name in replica.__struct_fields__}


@given(replicas, loads, loads, st.floats(0.1, 5000))
def test_more_load_makes_more_requests_late(replica, one, other, spare_ms) -> None:
    """And more time fewer of them."""
    few, many = sorted((one * replica.max_rate_per_s, other * replica.max_rate_per_s))
    ttft_ms = replica.prefill_ms(1) + spare_ms
    early, late = (late_share(replica, rate, ttft_ms) for rate in (few, many))
    assert 0 <= early <= late * (1 + 1e-9) + 1e-9
    assert late <= 1
    assert late_share(replica, many, ttft_ms * 2) <= late * (1 + 1e-9) + 1e-9


@given(replicas, loads, st.floats(60, 99.5))
def test_the_percentile_of_the_first_token_is_found(replica, load, percentile) -> None:
    """At most the share that it leaves comes later, of those that are accepted."""
    rate = np.array([load * replica.max_rate_per_s])
    model = Stalls(Times([replica]))
    found = model.ttft_quantile_ms(rate, np.array([percentile]))
    blocked = model.solve(rate).blocked[0]
    late = (model.late_share(rate, found * (1 + 1e-9))[0] - blocked) / (1 - blocked)
    assert late <= (1 - percentile / 100) * (1 + 1e-4) + 1e-9


def test_profiles_that_contain_stalls_need_more_replicas(replica) -> None:
    """As fitted to a simulated engine: at 1.67 requests a second, prefills take 41 % of its time, and 92 % of
    the requests have their first token in a second."""
    model = replica(16.64, 1.501, 183.73, 0.1543, batch=16, prompt=512, response=128)
    assert blocking_ms(Times([model]))[0] == pytest.approx(262.7, rel=1e-3)
    found = size(model, Targets(ttft_ms=1000, itl_ms=36.28))
    assert isinstance(found, Sizing)
    assert found.queue.ttft_per_s == pytest.approx(1.722, rel=1e-3)
    assert found.ttft_rate_per_s < 1.55
    assert found.binding == "ttft"
    at_limit = found.at_limit
    assert at_limit.stalled_ttft_percentile_ms == pytest.approx(1000, rel=1e-4)
    assert at_limit.ttft_percentile_ms < 900
    assert 1 - late_share(model, 1.667, 1000) < 0.92 < 1 - late_share(model, 1.4, 1000)


def test_the_mean_knows_no_bursts(replica) -> None:
    """It is exactly that of the reference."""
    model = replica(16.64, 1.501, 183.73, 0.1543, batch=16, prompt=512, response=128)
    found = size(model, Targets(ttft_ms=1200, itl_ms=36, percentile=None))
    assert isinstance(found, Sizing)
    assert (found.ttft_rate_per_s, found.itl_rate_per_s) == found.queue
    assert analyze(model, found.rate_per_s).itl_ms <= 36 * (1 + 1e-6)
