"""Virtual time takes like steps together. Nothing may tell that apart from single steps."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.simulator.model import (
    Cancellation,
    Engine,
    EngineConfig,
    RequestId,
    SimulatedRequest,
    StepCosts,
    Submission,
    run_virtual,
)

COSTS = StepCosts(
    base_s=0.0137,
    per_decode_sequence_s=1.1e-4,
    per_kv_token_s=5.3e-7,
    per_prefill_token_s=6.7e-5,
    prefill_base_s=0.019,
    least_prefill_s=0.021,
    per_start_s=0.0003,
)
CONTEXT = 300


@st.composite
def engines(draw):
    block_size = draw(st.integers(1, 16))
    return EngineConfig(
        costs=COSTS,
        max_num_seqs=draw(st.integers(1, 6)),
        max_model_len=CONTEXT,
        prefill_budget_tokens=draw(st.integers(5, 100)),
        kv_blocks=-(-CONTEXT // block_size) + 6 + draw(st.integers(0, 30)),
        block_size=block_size,
        max_waiting=draw(st.integers(0, 8)),
        kv_events=draw(st.booleans()),
        host_kv_blocks=draw(st.sampled_from([0, 0, 5, 50])),
        disk_kv_blocks=draw(st.sampled_from([0, 0, 5, 50])),
        remote_kv_blocks=draw(st.sampled_from([0, 0, 5, 50])),
        host_token_s=0.0013,
        max_adapters=draw(st.integers(1, 3)),
        adapter_load_s=draw(st.sampled_from([0.0, 0.07])),
        adapter_kv_blocks=draw(st.integers(0, 2)),
        max_host_adapters=draw(st.sampled_from([0, 3, 4])),
        adapter_host_load_s=0.03,
        by_priority=draw(st.booleans()),
        step_jitter=draw(st.sampled_from([0.0, 0.0, 0.2])),
        draft_tokens=draw(st.sampled_from([0, 0, 3])),
        draft_token_s=0.0007,
    )


@st.composite
def traffic(draw, block_size):
    events = []
    for number in range(draw(st.integers(1, 12))):
        prompt = draw(st.integers(1, CONTEXT - 1))
        family = draw(st.integers(0, 2)) * CONTEXT
        output = draw(st.integers(1, min(120, CONTEXT - prompt)))
        behind_prompt = family + prompt // block_size
        request = SimulatedRequest(
            request_id=RequestId(str(number)),
            prompt_tokens=prompt,
            output_tokens=output,
            blocks=range(family, behind_prompt) if family else (),
            answer_blocks=range(behind_prompt, family + (prompt + output) // block_size) if family else (),
            adapter=draw(st.sampled_from(["", "", "", "a", "b", "c"])),
            priority=draw(st.integers(0, 2)),
            received_tokens=draw(st.sampled_from([0, 0, 50])),
        )
        at_s = draw(st.floats(0, 4))
        events.append(Submission(at_s, request))
        if draw(st.integers(0, 4)) == 0:
            events.append(Cancellation(at_s + draw(st.floats(0, 2)), request.request_id))
    return events


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_times_are_those_of_single_steps(data):
    """Every request ends at the same time, to the last bit, and so do all counts."""
    config = data.draw(engines())
    events = data.draw(traffic(config.block_size))
    single, together = Engine(config), Engine(config)
    one_by_one = run_virtual(single, events, on_step=lambda _: single.validate())
    in_one_go = run_virtual(together, events)
    together.validate()
    assert in_one_go == one_by_one
    assert together.statistics() == single.statistics()
    assert _told(together) == _told(single)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_looking_in_between_changes_nothing(data):
    """`settle` at any time: the accounts are valid then, tokens are complete, and the end is the same."""
    config = data.draw(engines())
    engine = Engine(config)
    events = [event for event in data.draw(traffic(config.block_size)) if isinstance(event, Submission)]
    for event in events[: config.max_num_seqs + config.max_waiting]:
        engine.submit(event.request, 0.0)
    reference = Engine(config)
    expected = run_virtual(
        reference,
        [Submission(0.0, each.request) for each in events[: config.max_num_seqs + config.max_waiting]],
    )
    now, ends, emitted = 0.0, [], 0
    while (plan := engine.begin_step(now, most=data.draw(st.integers(1, 300)))) is not None:
        look_at_s = plan.starts_s + data.draw(st.floats(0, 1.2)) * plan.duration_s
        engine.settle(look_at_s)
        engine.validate()
        assert engine.step_ends_s >= min(look_at_s, plan.ends_s)
        outcome = engine.finish_step()
        engine.validate()
        emitted += sum(emission.tokens for emission in outcome.emitted)
        ends += outcome.finished
        now = outcome.plan.ends_s
    assert tuple(ends) == expected.finished
    assert emitted == engine.statistics().output_tokens_total


def test_a_long_answer_alone_takes_few_turns(small_engine, request_of):
    """1000 tokens of output are a handful of calls, not a thousand."""
    engine = Engine(
        small_engine(max_model_len=2000, kv_blocks=500, prefill_budget_tokens=100, kv_events=False)
    )
    engine.submit(request_of("a", 950, 1000), 0.0)
    now, turns = 0.0, 0
    while (plan := engine.begin_step(now, most=10_000)) is not None:
        engine.finish_step()
        now, turns = plan.ends_s, turns + 1
    assert engine.statistics().steps_total == 10 + 999
    assert turns == 3, "nine full chunks, the rest of the prompt, and all other tokens"


def test_costs_that_change_cut_the_steps_that_were_begun_together(small_engine, request_of):
    """Only the one under way keeps the old ones."""
    engine = Engine(small_engine(kv_events=False))
    engine.submit(request_of("a", 4, 40), 0.0)
    engine.begin_step(0.0)
    now = engine.finish_step().plan.ends_s
    step_s = engine.begin_step(now, most=100).duration_s / 39
    slow = msgspec.structs.replace(COSTS, base_s=100.0)
    engine.change_costs(msgspec.structs.replace(engine.config, costs=slow), now + step_s / 2)
    assert engine.finish_step().plan.steps == 1
    assert engine.begin_step(now).duration_s >= 100


def _told(engine: Engine) -> list[int]:
    """All hashes of all events: which of them come before which differs within a step only."""
    return sorted(
        block * 2 + (type(event).__name__ == "BlockStored")
        for event in engine.take_kv_events()
        for block in event.hashes
    )
