import random

import msgspec
import pytest

from headgate.scheduling import LeastWork
from headgate.simulator.fleet import run_fleet
from headgate.simulator.model import Fault, FaultSchedule
from headgate.traffic import traces
from headgate.traffic.workloads import WORKLOADS


@pytest.fixture
def run(fleet_of):
    """Runs requests on one engine: 2 s to the first token of 100, then 1 s for each of two others."""

    def make(requests, **description):
        return run_fleet(requests, fleet_of(1, **description), LeastWork(), seed=1)

    return make


def test_the_next_turn_comes_after_the_answer_and_a_pause(run, timed):
    """The answer is there after 4 s; 3 s later the next turn comes, whatever its own time says."""
    records = run([timed(0.0, session=1), timed(0.5, session=1, think_s=3.0)]).records
    assert [record.arrived_s for record in records] == pytest.approx([0.0, 7.0])
    assert records[1].ttft_s == pytest.approx(2.0)


def test_slow_engines_slow_their_clients_down(run, timed):
    """Twice as slow: the second turn comes at 8 + 3 s."""
    slow = FaultSchedule(faults=(Fault(kind="slow", at_s=0.0, factor=2.0),))
    requests = [timed(0.0, session=1), timed(0.5, session=1, think_s=3.0)]
    assert run(requests, faults=slow).records[1].arrived_s == pytest.approx(11.0)


def test_conversations_do_not_wait_for_each_other(run, timed):
    """Each has a clock of its own, and requests of none come at their times."""
    requests = [
        timed(0.0, session=1),
        timed(0.0, session=1, think_s=100.0),
        timed(1.0, session=2),
        timed(1.0, session=2, think_s=0.0),
        timed(9.0),
    ]
    records = run(requests).records
    first, _, third, fourth, last = records
    assert [record.number for record in records] == [0, 1, 2, 3, 4]
    assert records[1].arrived_s == pytest.approx(first.ended_s + 100)
    assert fourth.arrived_s == third.ended_s
    assert last.arrived_s == 9.0


def test_a_turn_that_failed_is_followed_by_the_next(run, timed):
    """What is sent does not depend on who serves it."""
    error = FaultSchedule(faults=(Fault(kind="error", at_s=0.0, duration_s=1.0, status=400),))
    requests = [timed(0.5, session=1), timed(0.5, session=1, think_s=2.0)]
    records = run(requests, faults=error).records
    assert [(record.outcome, record.arrived_s) for record in records] == [("failed", 0.5), ("served", 2.5)]


def test_a_turn_without_a_conversation_is_a_mistake(run, timed):
    """The message says which request, and of which session."""
    with pytest.raises(ValueError, match="request 1: think_s needs a request before it in session 7"):
        run([timed(0.0, session=1), timed(0.0, session=7, think_s=1.0)])


def test_a_turn_finds_the_answer_before_it_cached(run, timed):
    """Blocks of 10 tokens: 95 of prompt and 26 of answer, of which all but the last token are computed."""
    first = timed(0.0, 95, 26, prefix=tuple(range(10)), answer=(19, 20, 21), session=1)
    prefix = (*range(9), 19, 20, 21, *range(50, 54))
    second = timed(0.0, 155, 3, prefix=prefix, session=1, think_s=1.0)
    assert [record.cached_tokens for record in run([first, second]).records] == [0, 120]


def test_blocks_of_answers_fit_any_engine(fleet_of, engine_of, timed):
    """An engine with blocks of 4 tokens finds as much of a conversation, up to where its own blocks end."""
    first = timed(0.0, 95, 26, prefix=tuple(range(10)), answer=(19, 20, 21), session=1)
    second = timed(
        0.0, 155, 3, prefix=(*range(9), 19, 20, 21, *range(50, 54)), session=1, think_s=1.0, adapter=""
    )
    fleet = fleet_of(1, engine_of(block_size=4))
    for adapter in ("", "sql"):
        turns = [msgspec.structs.replace(each, adapter=adapter) for each in (first, second)]
        records = run_fleet(turns, fleet, LeastWork(), seed=1).records
        assert [record.cached_tokens for record in records] == [0, 120]


def test_pauses_are_what_a_trace_leaves_between_answer_and_turn(timed):
    """20 ms a token for the answer; conversations stand together, in the order of their first turns."""
    requests = [
        timed(0.0, session=1, output_tokens=100),
        timed(1.0, session=2, output_tokens=100),
        timed(1.5),
        timed(5.0, session=1, output_tokens=100),
        timed(5.5, session=2),
        timed(6.0, session=1),
    ]
    closed = traces.in_turn(requests)
    assert [(each.session, each.at_s, each.think_s) for each in closed] == [
        (1, 0.0, None),
        (1, 0.0, 3.0),
        (1, 0.0, 0.0),
        (2, 1.0, None),
        (2, 1.0, 2.5),
        (-1, 1.5, None),
    ]


def test_the_hashes_of_an_answer_are_those_of_the_next_prompt(timed):
    """As far as that goes on with it."""
    first = timed(0.0, 95, 26, prefix=tuple(range(10)), session=1)
    follows = timed(9.0, 155, 3, prefix=(*range(9), 19, 20, 21, *range(50, 54)), session=1)
    differs = timed(9.0, 155, 3, prefix=tuple(range(100, 116)), session=1)
    assert [each.answer for each in traces.in_turn([first, follows])] == [(19, 20, 21), ()]
    assert [each.answer for each in traces.in_turn([first, differs])] == [(), ()]


def test_jitter_keeps_conversations_together(timed):
    """First turns are spread, and the others stay behind them."""
    requests = [timed(0.0, session=number // 3) for number in range(60)]
    arrivals = traces.Arrivals(jitter_s=5.0)
    spread = traces.arrange(traces.in_turn(requests), arrivals, random.Random(1))
    sessions = [each.session for each in spread]
    assert sessions != sorted(sessions)
    assert [sessions[at] for at in range(0, 60, 3)] == [sessions[at] for at in range(2, 60, 3)]
    assert [each.think_s is None for each in spread] == [True, False, False] * 20


def test_a_made_up_chat_finds_all_that_was_said(fleet_of, engine_of):
    """On one engine with room for everything, a closed loop hits what an endless cache would."""
    chat = WORKLOADS["chat"](requests=60, block_tokens=10, user_tokens=40, output_tokens=60, think_s=1.0)
    requests = traces.in_turn(chat.generate(random.Random(1)))
    fleet = fleet_of(1, engine_of(max_model_len=100_000, kv_blocks=100_000, max_num_seqs=1000))
    run = run_fleet(requests, fleet, LeastWork(), seed=1)
    assert run.summary().hit_rate == pytest.approx(traces.ideal_hit_rate(requests), rel=0.02)
