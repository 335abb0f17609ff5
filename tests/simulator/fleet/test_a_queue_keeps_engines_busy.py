"""A fleet that gets more than it can do does as much with a queue in front of it, and in better order."""

import random
from statistics import fmean

import msgspec
import pytest

from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.flow.capacity import CapacitySettings
from headgate.flow.queue import FlowSettings
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model import EngineConfig, StepCosts
from headgate.traffic.workloads import SharedPrefix

COSTS = StepCosts(base_s=0.012, per_decode_sequence_s=5e-5, per_kv_token_s=4e-8, per_prefill_token_s=2.5e-4)
LONG_PROMPTS = SharedPrefix(
    requests=400, rate=22.0, prefixes=30, prefix_tokens=2000, question_tokens=500, output_tokens=60
)
LONG_ANSWERS = SharedPrefix(
    requests=400, rate=30.0, prefixes=30, prefix_tokens=128, question_tokens=100, output_tokens=200
)


def overload(workload, seed):
    """A tenth is critical, three tenths are sheddable."""
    chance = random.Random(seed)
    requests = workload.generate(chance)
    return [
        msgspec.structs.replace(each, priority=chance.choices([1, 0, -1], [0.1, 0.6, 0.3])[0])
        for each in requests
    ]


def served(requests, batch, flow, scrape_s=1.0):
    """What two engines make of the requests; nobody is refused."""
    prefixes = PrefixIndex()
    engine = EngineConfig(costs=COSTS, max_num_seqs=batch, max_model_len=32_768, kv_blocks=27_000)
    description = FleetDescription(
        groups=(EngineGroup(name="e", engine=engine, count=2),),
        scrape_s=scrape_s,
        flow=flow,
        capacity=CapacitySettings(),
    )
    policy = scheduling.PredictedFirstToken(prefixes)
    run = run_fleet(iter(requests), description, policy, seed=1, prefixes=prefixes)
    assert all(record.outcome == "served" for record in run.records)
    return run


def waits(runs, priority, share):
    first = sorted(each.ttft_s for run in runs for each in run.records if each.priority == priority)
    return first[int(len(first) * share)]


def most_served_s(run):
    """When nine of ten have ended: the last ones leave engines half empty, with or without a queue."""
    return sorted(record.ended_s for record in run.records)[len(run.records) * 9 // 10]


@pytest.mark.parametrize(
    ("workload", "batch", "scrape_s"),
    [(LONG_PROMPTS, 256, 1.0), (LONG_ANSWERS, 32, 1.0), (LONG_ANSWERS, 32, 0.0)],
    ids=["prefill", "decode", "without readings"],
)
def test_as_much_is_served_and_what_is_critical_at_once(workload, batch, scrape_s):
    """Within 1 % of the throughput and the hits; critical requests hardly wait, whatever else there is."""
    without, queued = [], []
    for seed in range(2):
        requests = overload(workload, seed)
        without.append(served(requests, batch, None, scrape_s))
        queued.append(served(requests, batch, FlowSettings(ttl_s=0, max_requests=0), scrape_s))
    assert fmean(map(most_served_s, queued)) <= 1.01 * fmean(map(most_served_s, without))
    hits = fmean([run.summary().hit_rate for run in without])
    assert fmean([run.summary().hit_rate for run in queued]) >= hits - 0.01
    assert waits(queued, 1, 0.95) < waits(without, 1, 0.95) / 3
    assert waits(queued, 0, 0.5) < waits(without, 0, 0.5)


def test_what_is_refused_is_sheddable(fleet_of, timed):
    """A fleet that is too small sheds what may be shed, and says why."""
    requests = [timed(0.0, priority=number % 2 * 2 - 1, output_tokens=5) for number in range(40)]
    description = fleet_of(
        1,
        flow=FlowSettings(max_requests=10, ttl_s=0),
        capacity=CapacitySettings(detector="in-flight", most=4),
    )
    run = run_fleet(requests, description, scheduling.LeastWork(), seed=1)
    refused = [record for record in run.records if record.outcome == "refused"]
    assert {record.why for record in refused} == {"rejected-saturated", "evicted-queue-pressure"}
    assert sum(record.priority < 0 for record in refused) >= 16


def test_requests_wait_no_longer_than_they_may(fleet_of, timed):
    """What has no turn in time is refused then, to the moment."""
    requests = [timed(0.0, output_tokens=100) for _ in range(3)]
    description = fleet_of(
        1, flow=FlowSettings(ttl_s=2.5), capacity=CapacitySettings(detector="in-flight", most=1)
    )
    run = run_fleet(requests, description, scheduling.LeastWork(), seed=1)
    assert [record.outcome for record in run.records] == ["served", "refused", "refused"]
    assert [record.ended_s for record in run.records][1:] == [2.5, 2.5]
    assert [record.queued_s for record in run.records] == [0.0, 2.5, 2.5]
