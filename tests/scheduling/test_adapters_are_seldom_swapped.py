"""Many adapters on few places, in virtual time: few loads, and no endpoint has much more than its share."""

import random
from collections import defaultdict

import pytest

from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model import EngineConfig, StepCosts
from headgate.traffic.workloads.patterns import Lora

COSTS = StepCosts(base_s=0.012, per_decode_sequence_s=5e-5, per_kv_token_s=4e-8, per_prefill_token_s=2.5e-4)
ENGINE = EngineConfig(costs=COSTS, kv_blocks=27_000, max_adapters=4, adapter_load_s=0.3)
FLEET = FleetDescription(groups=(EngineGroup(name="e", engine=ENGINE, count=4),), scrape_s=1.0)


def run(rate, policy_of):
    """15 adapters, with 60, 30 and 10 % of the requests in thirds, on 4 engines with 4 places each."""
    prefixes = PrefixIndex()
    told = Lora(requests=600, rate=rate).generate(random.Random(1))
    return run_fleet(told, FLEET, policy_of(prefixes), seed=1, prefixes=prefixes)


def loads(run):
    return sum(engine.statistics.adapter_loads_total for engine in run.engines)


def endpoints_by_adapter(run):
    found = defaultdict(set)
    for record in run.records:
        found[record.adapter].add(record.endpoint)
    return found


def with_homes(prefixes):
    return scheduling.WithAdapters(scheduling.PredictedFirstToken(prefixes))


@pytest.mark.parametrize("rate", [4.0, 12.0])
def test_adapters_stay_where_they_are(rate):
    """A few loads for each; a policy that is blind for them loads one for every few requests."""
    result = run(rate, with_homes)
    assert loads(result) <= 3 * 15
    assert loads(run(rate, lambda _: scheduling.LeastWork())) > 3 * loads(result)
    assert all(len(endpoints) <= 3 for endpoints in endpoints_by_adapter(result).values())


def test_few_requests_need_one_endpoint_for_each_adapter():
    """Each is loaded once, and never again."""
    result = run(4.0, with_homes)
    assert loads(result) == 15
    assert all(len(endpoints) == 1 for endpoints in endpoints_by_adapter(result).values())


def test_no_endpoint_has_much_more_than_its_share():
    """Adapters with many requests are spread, and leave an endpoint that has too much."""
    result = run(12.0, with_homes)
    requests = [engine.requests for engine in result.engines]
    assert max(requests) <= 1.5 * sum(requests) / 4
    assert result.summary().ttft_s.p99 < 2.5


def test_the_time_to_load_one_keeps_adapters_in_place():
    """Without homes, too: it is a part of the predicted first token, and learned from those that waited."""
    predicted = run(12.0, scheduling.PredictedFirstToken)
    blind = run(12.0, lambda _: scheduling.LeastWork())
    assert loads(predicted) <= 3 * 15
    assert loads(blind) > 3 * loads(predicted)
    assert blind.summary().ttft_s.p90 > 3 * predicted.summary().ttft_s.p90
