"""A controller starts and drains engines of a fleet in virtual time, as it does in the model of replicas."""

import random

import msgspec
import pytest

from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import configuration
from headgate.simulator.autoscaling import Setting, replay, score, work_of
from headgate.simulator.fleet import EngineGroup, FleetDescription, Scaling, Slo, run_fleet
from headgate.simulator.model import PROFILES
from headgate.traffic.traces import TimedRequest

ENGINE = msgspec.structs.replace(PROFILES["8b-h100"].config, prefix_cache=False, max_waiting=10_000)
SLO = Slo(ttft_s=2.0, tpot_s=0.1)
PLAN = [1, 3, 3, 3, 2, 1, 4, 4, 1]
PERIOD_S, COLD_START_S = 15.0, 20.0


def planned(now):
    return PLAN[min(round(now / PERIOD_S), len(PLAN) - 1)]


class Plan:
    period_s = PERIOD_S

    def desired(self, fleet):
        return planned(fleet.now)


def requests(rate, seconds=150.0, seed=2):
    rng = random.Random(seed)
    at_s, made = 0.0, []
    while (at_s := at_s + rng.expovariate(rate)) < seconds:
        made.append(
            TimedRequest(at_s=at_s, prompt_tokens=rng.randint(50, 1500), output_tokens=rng.randint(5, 300))
        )
    return made


def served(sent, desired=lambda now, engines: planned(now)):
    fleet = FleetDescription(groups=(EngineGroup(name="e", engine=ENGINE, count=5),), scrape_s=1.0)
    prefixes = PrefixIndex()
    policy = configuration.named(configuration.NAMES[0], prefixes)
    scaling = Scaling(desired, COLD_START_S, PERIOD_S, begins_with=1)
    return run_fleet(sent, fleet, policy, seed=1, prefixes=prefixes, scaling=scaling)


def test_no_request_is_lost_when_engines_come_and_go():
    """Draining engines serve their requests to the ends; each costs from its start to its stop."""
    run = served(requests(4.0))
    assert {record.outcome for record in run.records} == {"served"}
    assert [engine.starts for engine in run.engines] == [0, 2, 2, 1, 0]
    assert run.engines[3].up_s < run.engines[1].up_s < run.engines[0].up_s


def test_engines_serve_after_their_cold_start():
    """A second engine is wanted at 15 s, and serves from 35 s on."""
    run = served(requests(4.0))
    assert min(record.arrived_s for record in run.records if record.endpoint == "e-1") >= 35.0
    first = [record.arrived_s for record in run.records if record.endpoint == "e-1"]
    assert first[0] < 40.0


def test_the_controller_sees_engines():
    """Those that are wanted, ready or not."""
    seen = []

    def desired(now, engines):
        seen.append([each.is_ready for each in engines])
        return 2

    served(requests(1.0, 60.0), desired)
    assert seen[:4] == [[True], [True, False], [True, True], [True, True]]


@pytest.mark.parametrize("rate", [3.0, 7.0])
def test_the_model_of_replicas_agrees(rate):
    """Under the same plan, as many requests are in time."""
    sent = requests(rate)
    modelled = replay(work_of(sent), Plan(), Setting(ENGINE, COLD_START_S, SLO, begins_with=1))
    assert score(modelled).attainment == pytest.approx(served(sent).summary(SLO).slo_share, abs=0.05)
