import msgspec
import pytest

from headgate.scheduling.round_robin import RoundRobin
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet, stepping
from headgate.simulator.model import ConfigError, Fault, FaultSchedule


def run(requests, fleet):
    return run_fleet(requests, fleet, RoundRobin(), seed=1)


def test_a_prompt_is_found_whichever_engine_had_it(timed, fleet_of, engine_of):
    """Four engines in turn: only the first computes it."""
    requests = [timed(at_s=at * 10.0, prefix=tuple(range(10)), output_tokens=1) for at in range(4)]
    shared = run(requests, fleet_of(4, engine_of(remote_kv_blocks=100)))
    apart = run(requests, fleet_of(4))
    assert [record.cached_tokens for record in shared.records] == [0, 90, 90, 90]
    assert [record.cached_tokens for record in apart.records] == [0, 0, 0, 0]
    assert [engine.statistics.remote_hits_total for engine in shared.engines] == [0, 90, 90, 90]


def test_an_engine_that_crashed_finds_what_it_had_put_there(timed, fleet_of, engine_of):
    """Its own cache is cold."""
    faults = FaultSchedule(faults=(Fault(kind="crash", at_s=50.0, duration_s=10.0),))
    requests = [timed(at_s=at_s, prefix=tuple(range(10)), output_tokens=1) for at_s in (0.0, 100.0)]
    fleet = fleet_of(1, engine_of(remote_kv_blocks=100), faults=faults)
    assert run(requests, fleet).records[1].cached_tokens == 90


def test_steps_that_are_taken_together_change_nothing(timed, fleet_of, engine_of, monkeypatch):
    """What an engine puts there is found by others from the end of its step."""
    families = [at * at % 7 * 100 for at in range(40)]
    requests = [
        timed(
            at_s=at * 3.7,
            prefix=tuple(range(first, first + 30)),
            prompt_tokens=300,
            output_tokens=40,
            answer=tuple(range(first + 30, first + 34)),
        )
        for at, first in enumerate(families)
    ]
    fleet = fleet_of(3, engine_of(remote_kv_blocks=80, kv_blocks=400, prefill_budget_tokens=100))
    together = run(requests, fleet)
    monkeypatch.setattr(stepping, "STEPS_AT_ONCE", 1)
    assert run(requests, fleet) == together
    assert sum(engine.statistics.remote_hits_total for engine in together.engines) > 0


def test_groups_that_share_must_have_the_same_blocks(engine_of):
    """The error names each of what differs, and the groups; a group without the store may have any."""
    one = engine_of(remote_kv_blocks=100)
    other = msgspec.structs.replace(one, remote_kv_blocks=200, block_size=20)
    with pytest.raises(ConfigError) as error:
        FleetDescription(groups=(EngineGroup(name="a", engine=one), EngineGroup(name="b", engine=other)))
    assert "the same remote_kv_blocks, but a has 100 and b has 200" in str(error.value)
    assert "the same block_size, but a has 10 and b has 20" in str(error.value)
    without = msgspec.structs.replace(other, remote_kv_blocks=0)
    FleetDescription(groups=(EngineGroup(name="a", engine=one), EngineGroup(name="b", engine=without)))
