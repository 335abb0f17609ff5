import pytest

from headgate.fleet import EjectionPolicy, RetryBudgetPolicy
from headgate.scheduling import LeastWork
from headgate.simulator.fleet import run_fleet
from headgate.simulator.model import ConfigError, Fault, FaultSchedule


@pytest.fixture
def run(fleet_of):
    """Runs requests on two engines, with faults: 2 s to the first token, then 1 s for each of two others."""

    def make(requests, *faults, engines=2, engine=None, **description):
        fleet = fleet_of(engines, engine, faults=FaultSchedule(faults=faults), **description)
        return run_fleet(requests, fleet, LeastWork(), seed=1)

    return make


STALL = Fault(kind="stall", engines="e-0", at_s=10.0, duration_s=200)


def test_an_endpoint_that_hangs_is_left_out(run, timed):
    """After 30 s of silence on three requests it gets no more; those that it has end as it wakes up."""
    policy = EjectionPolicy(base_s=300.0)
    result = run([timed(float(at_s)) for at_s in range(120)], STALL, ejection=policy)
    hanging = [each.arrived_s for each in result.records if each.endpoint == "e-0" and each.arrived_s > 11]
    assert 40 < max(hanging) < 50
    assert {each.outcome for each in result.records} == {"served"}
    assert [each.ejections for each in result.engines] == [1, 0]


def test_hanging_is_not_seen_where_nothing_is_ejected(run, timed):
    """`failures` 0 turns all of it off."""
    requests = [timed(float(at_s)) for at_s in range(120)]
    result = run(requests, STALL, ejection=EjectionPolicy(failures=0))
    assert [each.ejections for each in result.engines] == [0, 0]
    watched = run(requests, STALL)
    assert result.engines[0].requests > watched.engines[0].requests


def test_an_engine_that_is_only_slow_does_not_hang(run, engine_of, timed):
    """Something is heard of it now and then, however long its queue is."""
    slow = Fault(kind="slow", engines="e-0", at_s=0.0, factor=3.0)
    result = run([timed(float(at_s)) for at_s in range(60)], slow, engine=engine_of(max_num_seqs=1))
    assert max(each.ttft_s for each in result.records) > 30
    assert [each.ejections for each in result.engines] == [0, 0]


def test_a_pool_that_hangs_as_a_whole_is_asked_on(run, timed):
    """Where nobody else was heard of, the fault may lie elsewhere."""
    stall = Fault(kind="stall", at_s=10.0, duration_s=100)
    result = run([timed(float(at_s)) for at_s in range(60)], stall)
    assert [each.ejections for each in result.engines] == [0, 0]


def test_failures_in_a_row_eject(run, timed):
    """As the policy says: here one is enough, for a hundred seconds."""
    error = Fault(kind="error", engines="e-0", at_s=0.0, status=503)
    policy = EjectionPolicy(failures=1, base_s=100.0)
    requests = [timed(at_s * 3.0) for at_s in range(30)]
    result = run(requests, error, ejection=policy)
    assert (result.engines[0].ejections, result.engines[0].requests) == (1, 1)


def test_a_pool_that_fails_as_a_whole_is_not_asked_twice_as_much(run, timed):
    """A budget of one retry in five: the others end with the failure that they met."""
    error = Fault(kind="error", at_s=0.0, status=503)
    requests = [timed(at_s * 0.01) for at_s in range(500)]
    budget = RetryBudgetPolicy(share=0.2, floor_per_s=0.0)
    result = run(requests, error, retry_budget=budget, retries=3, engines=4)
    retries = sum(each.attempts - 1 for each in result.records)
    assert {each.outcome for each in result.records} == {"failed"}
    assert 80 <= retries <= 100
    assert result.retries_denied > 300


def test_a_retry_is_not_spent_where_nobody_is_left(run, timed):
    """One endpoint alone: there is nothing to be tried again, nor to be denied."""
    error = Fault(kind="error", at_s=0.0, status=503)
    result = run([timed(at_s * 0.1) for at_s in range(50)], error, engines=1, retries=3)
    assert result.retries_denied == 0
    assert {each.attempts for each in result.records} == {1}


def test_settings_that_cannot_be_are_refused_together(fleet_of):
    """Each with its name and what would do."""
    with pytest.raises(ConfigError) as refused:
        fleet_of(
            1,
            ejection=EjectionPolicy(hang_s=-1, hang_requests=0, base_s=10, longest_s=5),
            retry_budget=RetryBudgetPolicy(share=-0.1, window_s=0),
        )
    told = str(refused.value).split("; ")
    assert told == [
        "ejection.longest_s: must be at least 10, got 5",
        "ejection.hang_s: must be at least 0, got -1",
        "ejection.hang_requests: must be at least 1, got 0",
        "retry_budget.share: must be at least 0, got -0.1",
        "retry_budget.window_s: must be more than 0, got 0",
    ]
