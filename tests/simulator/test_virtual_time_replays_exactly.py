import random

import pytest

from headgate.simulator.model import Cancellation, Engine, Submission, run_virtual


def traffic(request_of, seed: int):
    rng = random.Random(seed)
    events = [
        Submission(rng.uniform(0, 200), request_of(str(number), rng.randint(1, 40), rng.randint(1, 20)))
        for number in range(100)
    ]
    gone = [Cancellation(event.at_s + 5, event.request.request_id) for event in events[::7]]
    return [*events, *gone]


def test_equal_inputs_give_equal_runs(small_engine, request_of):
    """Two runs of the same traffic agree in every time, bit by bit."""
    first, second = (run_virtual(Engine(small_engine()), traffic(request_of, 3)) for _ in range(2))
    assert first == second
    assert len(first.finished) == 100


def test_an_idle_engine_jumps_to_the_next_arrival(small_engine, request_of):
    """A request after an hour of silence starts at once, and the hour costs no steps."""
    engine = Engine(small_engine())
    run = run_virtual(engine, [Submission(3600.0, request_of("a", 4, 1))])
    assert run.finished[0].started_s == 3600.0
    assert engine.statistics().steps_total == 1


def test_a_request_that_arrives_during_a_step_waits_for_its_end(small_engine, request_of):
    """Its queue time is what was left of the step."""
    events = [Submission(0.0, request_of("a", 10, 1)), Submission(0.5, request_of("b", 10, 1))]
    second = run_virtual(Engine(small_engine()), events).finished[1]
    assert second.queue_s == pytest.approx(0.6)


def test_a_request_cancelled_during_a_step_gets_no_token_from_it(small_engine, request_of):
    """Its blocks are free at once, and the step goes on for the others."""
    engine = Engine(small_engine())
    events = [
        Submission(0.0, request_of("a", 10, 3)),
        Submission(0.0, request_of("b", 10, 1)),
        Cancellation(0.5, request_of("a").request_id),
    ]
    run = run_virtual(engine, events)
    assert [(end.request_id, end.reason, end.output_tokens, end.finished_s) for end in run.finished] == [
        ("a", "abort", 0, 0.5),
        ("b", "length", 1, pytest.approx(1.2)),
    ]


def test_a_closed_loop_sends_the_next_request_when_one_ends(small_engine, request_of):
    """`on_finish` is the client that waits for its answer before it asks again."""
    names = iter("bcd")

    def ask_again(end):
        name = next(names, None)
        return [Submission(end.finished_s + 10, request_of(name, 4, 1))] if name else []

    run = run_virtual(Engine(small_engine()), [Submission(0.0, request_of("a", 4, 1))], on_finish=ask_again)
    assert [end.request_id for end in run.finished] == list("abcd")
    assert run.ended_s == pytest.approx(4 * 1.04 + 3 * 10)


def test_an_event_in_the_past_is_refused(small_engine, request_of):
    """Time does not run backwards, and the message says both times."""

    def too_early(end):
        return [Submission(end.finished_s - 1, request_of("b"))]

    with pytest.raises(ValueError, match=r"lies before the virtual time"):
        run_virtual(Engine(small_engine()), [Submission(5.0, request_of("a", 4, 1))], on_finish=too_early)


def test_refused_requests_are_reported(small_engine, request_of):
    """A run says which requests found the queue full."""
    events = [Submission(0.0, request_of(name)) for name in "abcd"]
    run = run_virtual(Engine(small_engine(max_waiting=1)), events)
    assert run.refused == ("d",)
    assert len(run.finished) == 3
