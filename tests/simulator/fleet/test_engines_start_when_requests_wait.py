"""An engine loads its model in 10 s; then a first token takes 2 s, and each other 1 s."""

import math

import msgspec
import pytest

from headgate.fleet.prefix import PrefixIndex
from headgate.flow.queue import FlowSettings
from headgate.scheduling import LeastWork
from headgate.scheduling.predicted import PredictedFirstToken
from headgate.simulator.fleet import ColdStart, run_fleet
from headgate.simulator.model import ConfigError

TEN_SECONDS = ColdStart(model_bytes=16e9, bytes_per_s=2e9, constant_s=2.0, running=0, stop_idle_s=30.0)
QUEUE = FlowSettings()


@pytest.fixture
def fleet(fleet_of):
    """Makes fleets of engines that start when requests wait; all else by keyword."""

    def make(count=1, cold_start=TEN_SECONDS, flow=QUEUE, role="both", **more):
        (group,) = fleet_of(count, **more).groups
        group = msgspec.structs.replace(group, cold_start=cold_start, role=role)
        return fleet_of(count, groups=(group,), flow=flow)

    return make


def test_a_request_to_an_empty_group_is_served_once_the_model_is_loaded(fleet, timed):
    """It waits in the gateway, and is sent to the engine that it has started."""
    result = run_fleet([timed(5.0)], fleet(), LeastWork(), seed=1)
    (record,) = result.records
    assert (record.outcome, record.queued_s) == ("served", 10.0)
    assert record.ttft_s == pytest.approx(12.0)
    (engine,) = result.engines
    assert (engine.starts, engine.requests) == (1, 1)
    assert engine.up_s == result.ended_s - 5.0


def test_an_engine_that_runs_takes_requests_at_once(fleet, timed):
    """Of two, one runs from the beginning: nobody waits, and the other never starts."""
    some = msgspec.structs.replace(TEN_SECONDS, running=1)
    result = run_fleet([timed(0.0), timed(20.0)], fleet(2, some), LeastWork(), seed=1)
    assert [record.ttft_s for record in result.records] == pytest.approx([2.0, 2.0])
    assert [(engine.starts, engine.requests) for engine in result.engines] == [(0, 2), (0, 0)]
    assert result.engines[1].up_s == 0


def test_an_idle_engine_stops_and_its_cache_is_cold_after(fleet, timed):
    """29 s after its last request it is warm; after 31 s it starts again, and nobody knows of a cache."""
    prompt = range(10)
    served_s = 14.0  # the load, the first token, and two others

    def caches(pause_s):
        index = PrefixIndex()
        requests = [timed(0.0, prefix=prompt), timed(served_s + pause_s, prefix=prompt)]
        result = run_fleet(requests, fleet(), PredictedFirstToken(index), seed=1, prefixes=index)
        last = result.records[1]
        return last.cached_tokens, last.expected_cached_tokens, result.engines[0].starts, last.queued_s

    assert caches(29.0) == (90, 100, 1, 0.0)
    assert caches(31.0) == (0, 0, 2, pytest.approx(10.0))


def test_a_group_starts_one_engine_after_the_other_while_requests_wait(fleet, engine_of, timed):
    """Each has room for one at a time; three come at once, of long answers."""
    one = engine_of(max_num_seqs=1)
    requests = [timed(0.0, output_tokens=100) for _ in range(3)]
    patient = FlowSettings(ttl_s=0)
    result = run_fleet(requests, fleet(4, engine=one, flow=patient), LeastWork(), seed=1)
    assert {record.outcome for record in result.records} == {"served"}
    assert result.engines[0].starts == 1
    assert result.engines[3].starts == 0, "nobody waits for a fourth"


def test_who_waits_for_longer_than_it_may_is_refused(fleet, timed):
    """The model is not there in time; whoever comes next finds it loaded."""
    hasty = FlowSettings(no_endpoint_ttl_s=4.0)
    result = run_fleet([timed(0.0), timed(20.0)], fleet(flow=hasty), LeastWork(), seed=1)
    assert [(record.outcome, record.ended_s) for record in result.records] == [
        ("refused", 4.0),
        ("served", pytest.approx(24.0)),
    ]


def test_engines_that_do_not_run_cost_nothing(fleet, engine_of, timed):
    """Loading costs, and so does the time until an idle engine stops; an hour of nothing does not."""
    paid = engine_of(dollars_per_hour=3600.0, idle_power_w=1.0)
    result = run_fleet([timed(0.0), timed(3600.0)], fleet(engine=paid), LeastWork(), seed=1)
    (engine,) = result.engines
    assert engine.up_s == pytest.approx((10 + 4 + 30) + (10 + 4))
    assert engine.dollars == engine.up_s
    assert engine.energy_j == pytest.approx(engine.up_s - engine.busy_s), (
        "which draws nothing here while it works"
    )


def test_runs_with_starts_are_the_same_again(fleet, timed):
    """Bit by bit."""
    requests = [timed(at * 17.0 % 301, prefix=range(at % 3, 10)) for at in range(30)]
    requests.sort(key=lambda request: request.at_s)
    first, second = (run_fleet(requests, fleet(3), LeastWork(), seed=4) for _ in range(2))
    assert first == second
    assert {record.outcome for record in first.records} == {"served"}


def test_mistakes_are_told_all_at_once(fleet):
    """By group and field."""
    wrong = ColdStart(model_bytes=-1, bytes_per_s=0, constant_s=math.nan, running=3, stop_idle_s=0)
    with pytest.raises(ConfigError) as error:
        fleet(2, wrong, flow=None, role="prefill")
    for told in (
        "cold_start.model_bytes: must be bytes, got -1",
        "cold_start.bytes_per_s: must be more than 0, got 0",
        "cold_start.constant_s: must be seconds, got nan",
        "cold_start.running: must be 0 to 2, the engines of the group, got 3",
        "cold_start.stop_idle_s: must be more than 0 seconds, got 0",
        "cold_start: is for engines that prefill and decode; those that only prefill run all the time",
        "cold_start: engines start when requests wait; set `flow`",
    ):
        assert f"groups[0].{told}" in str(error.value)
