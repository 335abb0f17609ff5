"""The model of replicas that autoscalers are tried on gives the latencies of stepped engines."""

import random
import statistics

import msgspec
import pytest

from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import configuration
from headgate.simulator.autoscaling import Setting, replay, score, work_of
from headgate.simulator.fleet import EngineGroup, FleetDescription, Slo, run_fleet
from headgate.simulator.model import PROFILES
from headgate.traffic.traces import TimedRequest

SLO = Slo(ttft_s=1.5, tpot_s=0.06)
REPLICAS = 3
ENGINE = msgspec.structs.replace(PROFILES["8b-h100"].config, prefix_cache=False, max_waiting=100_000)


class Fixed:
    """Keeps the replicas that there are."""

    period_s = 15.0

    def desired(self, fleet):
        return len(fleet.ready)


def requests(rate, seconds=240.0, seed=4):
    """Poisson arrivals of chats, with few long prompts."""
    rng = random.Random(seed)
    at_s, made = 0.0, []
    while (at_s := at_s + rng.expovariate(rate)) < seconds:
        prompt = min(round(rng.lognormvariate(6.6, 0.9)), 7000)
        made.append(
            TimedRequest(at_s=at_s, prompt_tokens=prompt, output_tokens=round(rng.expovariate(1 / 180)) + 1)
        )
    return made


@pytest.mark.parametrize("rate", [3.0, 6.0, 9.0])
def test_latencies_and_attainment_agree(rate):
    """At a low, a middle and a high load."""
    sent = requests(rate)
    ours = replay(work_of(sent), Fixed(), Setting(ENGINE, 30.0, SLO, begins_with=REPLICAS))
    fleet = FleetDescription(groups=(EngineGroup(name="e", engine=ENGINE, count=REPLICAS),), scrape_s=1.0)
    prefixes = PrefixIndex()
    policy = configuration.named(configuration.NAMES[0], prefixes)
    stepped = run_fleet(sent, fleet, policy, seed=1, prefixes=prefixes)
    assert all(record.outcome == "served" for record in stepped.records)
    first_s = [ours.ledger.first_s[work.number] - work.at_s for work in ours.works]
    ended_s = [ours.ledger.ended_s[work.number] - work.at_s for work in ours.works]
    assert statistics.mean(first_s) == pytest.approx(stepped.summary().ttft_s.mean, rel=0.15)
    assert statistics.mean(ended_s) == pytest.approx(stepped.summary().latency_s.mean, rel=0.1)
    assert score(ours).attainment == pytest.approx(stepped.summary(SLO).slo_share, abs=0.03)


def test_a_lone_request_takes_its_steps():
    """Two full steps of prefill, and one for the rest; then a step for each further token."""
    costs = ENGINE.costs
    work = work_of([TimedRequest(at_s=1.0, prompt_tokens=1100, output_tokens=11)])
    run = replay(work, Fixed(), Setting(ENGINE, 30.0, SLO, begins_with=1))
    first_s = 3 * costs.base_s + 1100 * costs.per_prefill_token_s + costs.per_start_s
    assert run.ledger.first_s[0] - 1.0 == pytest.approx(first_s)
    step_s = costs.base_s + costs.per_decode_sequence_s + 1100 * costs.per_kv_token_s
    assert run.ledger.ended_s[0] - run.ledger.first_s[0] == pytest.approx(10 * step_s, rel=0.01)
