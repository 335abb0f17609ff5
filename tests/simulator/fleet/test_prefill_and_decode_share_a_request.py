import msgspec
import pytest

from headgate.scheduling import LeastWork
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.fleet.transfers import SharedLink
from headgate.simulator.model import Fault, FaultSchedule


@pytest.fixture
def paired(engine_of):
    """Makes fleets of prefill and decode engines; a token's cache takes 0.01 s on the link alone."""

    def make(prefills=1, decodes=1, **more):
        engine = engine_of(kv_bytes_per_token=10)
        return FleetDescription(
            groups=(
                EngineGroup(name="p", engine=engine, count=prefills, role="prefill"),
                EngineGroup(name="d", engine=engine, count=decodes, role="decode"),
            ),
            link_bytes_per_s=1000.0,
            **more,
        )

    return make


def run(requests, description):
    return run_fleet(requests, description, LeastWork(), seed=1)


def crash(engines, at_s):
    return FaultSchedule(faults=(Fault(kind="crash", engines=engines, at_s=at_s, duration_s=1000),))


def test_a_prompt_is_prefilled_handed_over_and_answered(paired, timed):
    """2 s of prefill, 1 s on the link, and a step of the decode engine for the last token of the prompt."""
    (record,) = run([timed(0.0)], paired()).records
    assert (record.endpoint, record.prefill_endpoint) == ("d-0", "p-0")
    assert record.ttft_s == pytest.approx(2.0 + 1.0 + 1.01)
    assert record.ended_s == pytest.approx(4.01 + 2.0)


def test_transfers_share_the_link(paired, timed):
    """Two prompts that are ready together take twice as long."""
    records = run([timed(0.0), timed(0.0)], paired(2, 2)).records
    assert {record.prefill_endpoint for record in records} == {"p-0", "p-1"}
    assert [record.ttft_s for record in records] == pytest.approx([2.0 + 2.0 + 1.01] * 2)


def test_what_the_decode_engine_has_cached_is_not_handed_over(paired, timed):
    """The second prompt is known there but for one block and the last token."""
    records = run([timed(0.0, prefix=range(10)), timed(50.0, prefix=range(10))], paired()).records
    assert records[1].ttft_s == pytest.approx(1.1 + 0.1 + 1.01), "prefill and link have 10 tokens to do"


def test_short_prompts_stay_where_they_are_decoded(paired, timed):
    """Below `remote_tokens` a pair is not worth while."""
    (record,) = run([timed(0.0)], paired(remote_tokens=200)).records
    assert (record.endpoint, record.prefill_endpoint) == ("d-0", "")
    assert record.ttft_s == pytest.approx(2.0)


def test_engines_may_do_both_beside_those_that_do_not(engine_of, timed):
    """A prefill engine serves one that does both, too."""
    description = FleetDescription(
        groups=(
            EngineGroup(name="p", engine=engine_of(), role="prefill"),
            EngineGroup(name="b", engine=engine_of()),
        )
    )
    (record,) = run([timed(0.0)], description).records
    assert (record.endpoint, record.prefill_endpoint) == ("b-0", "p-0")


def test_a_prefill_engine_that_dies_is_replaced_by_another(paired, timed):
    """The decode engine is not to blame: it may be asked again."""
    description = paired(2, faults=crash("p-0", 1.0))
    records = run([timed(0.0), timed(0.0)], description).records
    assert [record.outcome for record in records] == ["served"] * 2
    assert [record.prefill_endpoint for record in records] == ["p-1"] * 2
    assert sorted(record.attempts for record in records) == [1, 2]


def test_a_prompt_whose_transfer_breaks_off_is_computed_again(paired, timed):
    """The prefill engine dies at 2.5 s, half-way through: 2 s of prefill on the other, as vLLM does it."""
    (record,) = run([timed(0.0)], paired(faults=crash("p-0", 2.5))).records
    assert (record.outcome, record.attempts) == ("served", 1)
    assert record.ttft_s == pytest.approx(2.5 + 2.0)


@pytest.mark.parametrize("at_s", [1.0, 2.5, 3.5])
def test_a_decode_engine_that_dies_is_replaced_by_another(paired, timed, at_s):
    """While the prompt is prefilled, handed over, or answered: it begins anew, and no block stays held."""
    description = paired(1, 2, faults=crash("d-0", at_s))
    result = run([timed(0.0), timed(0.0)], description)
    assert [record.endpoint for record in result.records] == ["d-1"] * 2
    assert sorted(record.attempts for record in result.records) == [1, 2]
    assert all(engine.statistics.kv_blocks_used == 0 for engine in result.engines)


def test_the_prefill_engine_holds_the_prompt_until_it_is_handed_over(paired, timed):
    """With room for one prompt, the next waits for the link: 2 s, 1 s, 2 s, 1 s, and the last step."""
    description = paired()
    prefill, decode = description.groups
    tight = msgspec.structs.replace(prefill.engine, max_model_len=150, kv_blocks=15)
    description = msgspec.structs.replace(
        description, groups=(msgspec.structs.replace(prefill, engine=tight), decode)
    )
    records = run([timed(0.0), timed(0.0)], description).records
    assert max(record.ttft_s for record in records) == pytest.approx(2 + 1 + 2 + 1 + 1.01, abs=1.01)
    assert max(record.ttft_s for record in records) >= 2 + 1 + 2 + 1 + 1.01 - 1e-9


def test_a_link_is_shared_from_one_change_to_the_next():
    """100 bytes/s: 100 bytes alone for 0.5 s, then beside another, which is given up at 1 s."""
    timeline = Timeline()
    link = SharedLink(timeline, 100.0, 0.0)
    ended = {}
    link.begin(100.0, lambda: ended.update(first=timeline.now))
    others = []
    timeline.at(0.5, lambda: others.append(link.begin(80.0, lambda: ended.update(other=timeline.now))))
    timeline.at(1.0, lambda: link.give_up(others[0]))
    timeline.run()
    assert ended == {"first": pytest.approx(1.25)}
    assert link.bytes_total == pytest.approx(125.0)
