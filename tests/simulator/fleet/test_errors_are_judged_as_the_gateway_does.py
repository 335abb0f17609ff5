"""What becomes of endpoints that answer with errors or not at all: the rules are those of the gateway."""

import pytest

from headgate.fleet import EjectionPolicy
from headgate.scheduling import LeastWork
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model import Fault, FaultSchedule


@pytest.fixture
def run(fleet_of):
    """Runs requests on two engines, with faults: 2 s to the first token, then 1 s for each of two others."""

    def make(requests, *faults, engines=2, **description):
        fleet = fleet_of(engines, faults=FaultSchedule(faults=faults), **description)
        return run_fleet(requests, fleet, LeastWork(), seed=1)

    return make


def error(status, engines="e-0", **more):
    return Fault(kind="error", engines=engines, at_s=0.0, status=status, **more)


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_an_endpoint_that_alone_rejects_is_ejected(run, timed, status):
    """Its requests are served by the other; after five failures it gets none."""
    result = run([timed(at_s * 4.0) for at_s in range(12)], error(status, retry_after_s=0))
    assert {each.outcome for each in result.records} == {"served"}
    assert result.engines[0].ejections >= 1
    assert 5 <= result.engines[0].requests < 9


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_nobody_is_blamed_for_what_all_say(run, timed, status):
    """Two are asked, and neither is left out."""
    result = run([timed(at_s * 4.0) for at_s in range(12)], error(status, "*"))
    assert {each.outcome for each in result.records} == {"failed"}
    assert [each.ejections for each in result.engines] == [0, 0]


def test_a_mistake_of_clients_is_tried_again_only_now_and_then(run, timed):
    """Once two endpoints agree on it, for ten seconds."""
    result = run([timed(at_s * 1.0) for at_s in range(9)], error(401, "*"))
    assert [each.attempts for each in result.records] == [2] + [1] * 8


def test_an_endpoint_that_asks_for_a_rest_gets_it(run, timed):
    """It is no failure, and it is asked again after that time."""
    result = run([timed(at_s * 4.0) for at_s in range(10)], error(429, retry_after_s=15.0))
    assert {each.outcome for each in result.records} == {"served"}
    assert (result.engines[0].requests, result.engines[0].ejections) == (3, 0)


def test_a_failing_share_of_requests_is_enough(run, timed):
    """Never five in a row, but far more often than the other."""
    policy = EjectionPolicy(failures=1000)
    requests = [timed(at_s * 0.2, prompt_tokens=10) for at_s in range(400)]
    result = run(requests, error(500, share=0.5), ejection=policy)
    assert {each.outcome for each in result.records} == {"served"}
    assert result.engines[0].ejections >= 1
    assert result.engines[1].ejections == 0


def test_an_adapter_that_an_endpoint_lacks_is_looked_for_elsewhere(run, timed):
    """The 404 counts for a minute, and is no failure."""
    result = run([timed(at_s * 4.0, adapter="a") for at_s in range(10)], error(404))
    assert {each.outcome for each in result.records} == {"served"}
    assert (result.engines[0].requests, result.engines[0].ejections) == (1, 0)


def test_requests_leave_a_stopped_process(run, timed):
    """After three times what is usual, and a second more for the gateway's own question."""
    stop = Fault(kind="stop", engines="e-0", at_s=100.5, duration_s=60)
    requests = [timed(float(at_s), prompt_tokens=10) for at_s in range(150)]
    result = run(requests, stop, scrape_s=1.0)
    assert {each.outcome for each in result.records} == {"served"}
    assert 5 < max(each.ttft_s for each in result.records) < 13
    assert result.engines[0].ejections >= 1


def test_whom_nobody_asks_is_not_known_to_be_stopped(run, timed):
    """Without readings of metrics only three requests of thirty seconds tell."""
    stop = Fault(kind="stop", engines="e-0", at_s=100.5, duration_s=25)
    requests = [timed(float(at_s), prompt_tokens=10) for at_s in range(150)]
    result = run(requests, stop)
    assert max(each.ttft_s for each in result.records) > 20
    assert result.engines[0].ejections == 0


@pytest.fixture
def paired(engine_of):
    """Makes fleets of two engines that prefill and one that decodes."""

    def make(*faults, **more):
        groups = (
            EngineGroup(name="p", engine=engine_of(), count=2, role="prefill"),
            EngineGroup(name="d", engine=engine_of(), count=1, role="decode"),
        )
        return FleetDescription(groups=groups, faults=FaultSchedule(faults=faults), **more)

    return make


@pytest.mark.parametrize("status", [401, 500, 503])
def test_an_endpoint_that_prefills_is_blamed_where_another_serves(paired, timed, status):
    """Another prefills, or the one that answers does; whoever fails again and again is left out."""
    requests = [timed(at_s * 5.0) for at_s in range(20)]
    result = run_fleet(requests, paired(error(status, "p-0")), LeastWork(), seed=1)
    assert {each.outcome for each in result.records} == {"served"}
    assert [each.ejections for each in result.engines][1:] == [0, 0]
    assert result.engines[0].ejections >= 1


def test_prompts_leave_a_stopped_process(paired, timed):
    """The other prefills them."""
    stop = Fault(kind="stop", engines="p-0", at_s=200.5, duration_s=60)
    requests = [timed(at_s * 2.0) for at_s in range(120)]
    result = run_fleet(requests, paired(stop, scrape_s=1.0), LeastWork(), seed=1)
    assert {each.outcome for each in result.records} == {"served"}
    assert max(each.ttft_s for each in result.records) < 20
