"""The soak of failing engines in virtual time: faults at random, our rules beside a picker told the truth."""

import pytest

import health_faults
from headgate.fleet import EjectionPolicy
from headgate.scheduling import LeastWork, Policy
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model import PROFILES, Fault, FaultSchedule
from headgate.traffic.traces import TimedRequest

SECONDS = 180.0
PER_S = 10.0
PATIENCE_S = 10.0
BOUND = 0.01


def fault(episode):
    """As the simulator has it."""
    kind = episode.kind
    when = {
        "engines": f"e-{episode.engine}",
        "at_s": episode.at_s,
        "duration_s": episode.until_s - episode.at_s,
    }
    if kind is health_faults.STOP:
        return Fault(kind="stop", **when)
    if kind is health_faults.CRASH:
        return Fault(kind="crash", **when)
    if kind is health_faults.SLOW:
        return Fault(kind="slow", factor=health_faults.SLOWER, **when)
    return Fault(kind="error", status=kind.status, retry_after_s=kind.retry_after_s, **when)


class ToldTheTruth(Policy):
    """Asks only engines that are well."""

    def __init__(self, episodes):
        self._episodes = episodes
        self._picks = LeastWork()

    def pick(self, request, candidates, now, rng):
        failing = {f"e-{each.engine}" for each in self._episodes if each.is_on(now)}
        well = [load for load in candidates if load.endpoint.name not in failing]
        return self._picks.pick(request, well or candidates, now, rng)


def failed(policy, episodes, **description):
    """The share of requests that were not served, or not begun in time."""
    group = EngineGroup(name="e", engine=PROFILES["8b-h100"].config, count=4)
    faults = FaultSchedule(faults=tuple(fault(each) for each in episodes))
    fleet = FleetDescription(groups=(group,), faults=faults, scrape_s=1.0, retries=2, **description)
    requests = [
        TimedRequest(at_s=at / PER_S, prompt_tokens=200, output_tokens=20, is_streamed=at % 2 == 0)
        for at in range(int(SECONDS * PER_S))
    ]
    records = run_fleet(requests, fleet, policy, seed=1).records
    late = [each for each in records if each.outcome != "served" or (each.ttft_s or 0.0) > PATIENCE_S]
    return len(late) / len(records)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_about_as_few_as_with_a_picker_that_is_told_the_truth(seed):
    """At most one in a hundred requests more."""
    kinds = [kind for kind in health_faults.KINDS if kind is not health_faults.LACKS]
    episodes = health_faults.drawn(seed, SECONDS, 4, kinds)
    assert len(episodes) >= 10
    ours = failed(LeastWork(), episodes)
    truth = failed(ToldTheTruth(episodes), episodes, ejection=EjectionPolicy(failures=0))
    assert ours <= truth + BOUND


def test_faults_follow_their_rules():
    """Every kind as often as any other, at most half of the engines at a time, and calm at both ends."""
    episodes = health_faults.drawn(7, 600.0, 4)
    kinds = [each.kind for each in episodes]
    counts = [kinds.count(kind) for kind in health_faults.KINDS]
    assert max(counts) - min(counts) <= 1
    for each in episodes:
        assert sum(other.is_on(each.at_s) for other in episodes) <= 2
        assert each.at_s >= health_faults.CALM_S
        assert each.until_s <= 600.0 - health_faults.CALM_S
    assert episodes == health_faults.drawn(7, 600.0, 4)
    assert episodes != health_faults.drawn(8, 600.0, 4)
