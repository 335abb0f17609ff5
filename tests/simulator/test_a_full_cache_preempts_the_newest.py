from headgate.simulator.model import Engine, Submission, run_virtual


def full_cache(small_engine, request_of):
    """Two requests that fit when they start, but not with all of their answers."""
    engine = Engine(small_engine(kv_blocks=16))
    return engine, [Submission(0.0, request_of("old", 28, 20)), Submission(0.0, request_of("new", 28, 20))]


def test_the_newest_request_makes_room(small_engine, request_of):
    """When no block is free, the newest is preempted and the oldest goes on to its end."""
    engine, events = full_cache(small_engine, request_of)
    preempted = []
    run = run_virtual(engine, events, on_step=lambda outcome: preempted.extend(outcome.plan.preempted))
    assert preempted == ["new"]
    assert [(end.request_id, end.preemptions) for end in run.finished] == [("old", 0), ("new", 1)]


def test_a_preempted_request_is_computed_again_and_loses_no_token(small_engine, request_of):
    """Its prompt and the tokens so far are prefilled anew; the answer still has every token exactly once."""
    engine, events = full_cache(small_engine, request_of)
    positions = []
    run_virtual(
        engine,
        events,
        on_step=lambda outcome: positions.extend(
            emission.position for emission in outcome.emitted if emission.request_id == "new"
        ),
    )
    assert positions == list(range(20))
    assert engine.statistics().prefill_tokens_total > 28 + 28


def test_a_preempted_request_is_ahead_of_those_who_wait(small_engine, request_of):
    """It goes back to the head of the queue."""
    engine, events = full_cache(small_engine, request_of)
    admitted = []
    run_virtual(
        engine,
        [*events, Submission(0.0, request_of("late", 4, 1))],
        on_step=lambda outcome: admitted.extend(outcome.plan.admitted),
    )
    assert admitted == ["old", "new", "new", "late"]


def test_the_longest_possible_request_always_ends(small_engine, request_of):
    """A request as long as the context fits into the cache alone, whatever else was running."""
    engine = Engine(small_engine(max_num_seqs=8))
    events = [Submission(0.0, request_of(name, 32, 32)) for name in "abcd"]
    run = run_virtual(engine, events)
    assert [end.output_tokens for end in run.finished] == [32] * 4
    assert engine.statistics().kv_blocks_used == 0
