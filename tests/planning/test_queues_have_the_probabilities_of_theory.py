"""Birth-death queues: by hand, by the formulas of M/M/1/K, and by summing up every state."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.queueing import Steady, steady


def solved(completions: list[float], capacity: int, rate: float) -> Steady:
    """One queue with room for `capacity` requests, and completions per ms by the size of the batch."""
    weights = np.concatenate(([0.0], -np.cumsum(np.log(completions))))
    batch, waiting = float(len(completions)), float(capacity - len(completions))
    return steady(
        weights[None, :],
        np.array([batch]),
        np.array([waiting]),
        np.log([completions[-1]]),
        np.array([rate]),
    )


@pytest.mark.parametrize(
    ("completions", "capacity", "rate", "in_system", "in_service", "accepted", "response", "wait"),
    [
        ([1, 1.5], 3, 1, 33 / 28, 29 / 28, 0.857143, 1.375, 0.166667),
        ([2, 3, 3.6], 5, 3, 2.340446, 1.952473, 2.636275, 0.887785, 0.147167),
        ([1], 4, 0.5, 26 / 31, 15 / 31, 0.483871, 1.733333, 0.733333),
    ],
)
def test_small_queues_are_as_computed_by_hand(
    completions, capacity, rate, in_system, in_service, accepted, response, wait
) -> None:
    """Requests that wait and that are served, throughput, and times by Little's law."""
    state = solved(completions, capacity, rate)
    assert state.waiting[0] + state.in_service[0] == pytest.approx(in_system, abs=1e-6)
    assert state.in_service[0] == pytest.approx(in_service, abs=1e-6)
    assert state.accepted_per_ms[0] == pytest.approx(accepted, abs=1e-6)
    assert state.wait_ms[0] == pytest.approx(wait, abs=1e-6)
    assert state.wait_ms[0] + state.service_ms[0] == pytest.approx(response, abs=1e-6)


@pytest.mark.parametrize(
    ("rate", "probabilities"),
    [
        (1.0, [1 / 5] * 5),
        (0.5, [16 / 31, 8 / 31, 4 / 31, 2 / 31, 1 / 31]),
        (2.0, [1 / 31, 2 / 31, 4 / 31, 8 / 31, 16 / 31]),
    ],
)
def test_one_server_behaves_as_in_theory(rate, probabilities) -> None:
    """M/M/1/K below, at and above full load."""
    state = solved([1.0], 4, rate)
    assert state.blocked[0] == pytest.approx(probabilities[-1])
    assert state.in_service[0] == pytest.approx(1 - probabilities[0])
    assert state.waiting[0] == pytest.approx(sum(max(n - 1, 0) * p for n, p in enumerate(probabilities)))


def by_summing(completions: list[float], capacity: int, rate: float) -> tuple[float, float, float]:
    """Requests that wait, requests in service, and the share that is blocked, state by state."""
    logs = [0.0]
    for n in range(capacity):
        logs.append(logs[-1] + math.log(rate) - math.log(completions[min(n, len(completions) - 1)]))
    weights = [math.exp(each - max(logs)) for each in logs]
    total = math.fsum(weights)
    batch = len(completions)
    waiting = math.fsum(max(n - batch, 0) * weight for n, weight in enumerate(weights)) / total
    serving = math.fsum(min(n, batch) * weight for n, weight in enumerate(weights)) / total
    return waiting, serving, weights[-1] / total


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=30).map(sorted),
    st.integers(0, 400),
    st.one_of(st.floats(0.01, 50), st.floats(0.999_999, 1.000_001)),
)
def test_the_closed_form_equals_the_sum_over_all_states(completions, queue, load) -> None:
    """For every load of the last server, far below 1, around it, and far above."""
    rate = load * completions[-1]
    state = solved(completions, len(completions) + queue, rate)
    waiting, serving, blocked = by_summing(completions, len(completions) + queue, rate)
    assert state.waiting[0] == pytest.approx(waiting, rel=1e-6, abs=1e-12)
    assert state.in_service[0] == pytest.approx(serving, rel=1e-9)
    assert state.blocked[0] == pytest.approx(blocked, rel=1e-6, abs=1e-300)


def test_thousands_of_states_do_not_overflow() -> None:
    """A batch of 65,536 with a queue ten times as long, at any load."""
    completions = [n / (5 + n / 1000) for n in range(1, 65_537)]
    for load in (1e-6, 0.5, 0.999, 1.0, 1.5):
        state = solved(completions, 11 * 65_536, load * completions[-1])
        assert all(np.isfinite(each).all() for each in state)
        assert 0 <= state.blocked[0] < 1
