"""The simulated engine, which knows nothing of the queueing model, confirms what is planned.

Poisson arrivals, spread over the replicas at random; times are virtual, so that runs are equal everywhere.
"""

import pytest

from headgate.planning import Infeasible, size
from planning_contest import fitted
from planning_contest.simulated import CASES, Case, confirm, seen, would_do

REQUESTS = 1500
LARGE_BATCH = 500
"""Steps of these take long to simulate, and their targets have slack."""


def requests(case: Case) -> int:
    return LARGE_BATCH if case.batch > 100 else REQUESTS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_targets_hold_with_at_most_a_replica_too_much(case) -> None:
    """For the smallest and the largest of the rates."""
    for per_minute in (case.per_minute[0], case.per_minute[-1]):
        found = confirm(case, per_minute, requests(case))
        assert would_do(case, found.seen), (per_minute, found)
        assert found.planned <= found.least + 1, (per_minute, found)


@pytest.mark.parametrize("case", [case for case in CASES if case.batch < 100], ids=lambda case: case.name)
def test_targets_hold_for_responses_of_random_lengths(case) -> None:
    """Exponential ones, at the rate of a replica that is used to its limit."""
    sized = size(case.replica, case.targets)
    found = seen(case, sized.capacity_per_s, REQUESTS, is_random=True)
    assert would_do(case, found), found


def test_impossible_targets_are_missed_in_the_simulation_too() -> None:
    """T4: even a lone request has its first token too late."""
    case = CASES[-2]._replace(name="T4", ttft_ms=1, itl_ms=0.1)
    assert isinstance(size(case.replica, case.targets), Infeasible)
    assert seen(case, 0.001, 100).in_time == 0


@pytest.mark.parametrize("name", fitted.ENGINES)
def test_targets_hold_for_fitted_profiles(name) -> None:
    """Of engines with other constants, measured from outside; with at most a replica too much."""
    case, engine = fitted.case_of(name), fitted.engine(name)
    for per_minute in case.per_minute:
        found = confirm(case, per_minute, REQUESTS, engine=engine)
        assert would_do(case, found.seen), (per_minute, found)
        assert found.planned <= found.least + 1, (per_minute, found)


@pytest.mark.parametrize("seed", range(12))
def test_targets_hold_for_profiles_of_random_engines(seed) -> None:
    """With random requests and targets, from engines that mostly decode to those that mostly prefill."""
    case, engine = fitted.drawn(seed)
    for per_minute in case.per_minute:
        found = confirm(case, per_minute, REQUESTS, engine=engine)
        assert would_do(case, found.seen), (per_minute, found)
        assert found.planned <= found.least + 1, (per_minute, found)


@pytest.mark.parametrize(("seed", "in_time", "itl"), [(9, 0.93, 1.1), (46, 0.93, 1.0)])
def test_the_worst_random_engines_are_a_bit_late(seed, in_time, itl) -> None:
    """The two worst of 60 at exactly the rate that a replica is sized for, without the slack of whole ones:
    prefills come in longer groups than planned."""
    case, engine = fitted.drawn(seed)
    sized = size(case.replica, case.targets)
    assert not isinstance(sized, Infeasible)
    found = seen(case, sized.capacity_per_s, 4000, engine=engine)
    assert found.in_time > in_time
    assert found.itl_ms < itl * case.itl_ms


@pytest.mark.parametrize(("seed", "times"), [(42, 1.5), (52, 1.2), (53, 2.5)])
def test_some_random_engines_get_too_many_replicas(seed, times) -> None:
    """Those that prefill a prompt in several steps, and profiles with a large delta: targets hold."""
    case, engine = fitted.drawn(seed)
    found = confirm(case, case.per_minute[0], REQUESTS, engine=engine)
    assert would_do(case, found.seen), found
    assert found.planned <= times * found.least, found
