from headgate.simulator.model import Engine, Submission, run_virtual


def test_a_step_prefills_no_more_than_its_budget(small_engine, request_of):
    """A prompt of 50 with a budget of 20 takes three steps, and its first token comes with the last."""
    steps = []
    run_virtual(
        Engine(small_engine(prefill_budget_tokens=20)),
        [Submission(0.0, request_of("long", 50, 1))],
        on_step=lambda outcome: steps.append((outcome.plan.prefill_tokens, len(outcome.emitted))),
    )
    assert steps == [(20, 0), (20, 0), (10, 1)]


def test_what_a_chunk_leaves_goes_to_the_next_request(small_engine, request_of):
    """The budget is spent on the oldest prompt first, and its rest in the same step on the one behind."""
    steps = []
    run_virtual(
        Engine(small_engine(prefill_budget_tokens=20)),
        [Submission(0.0, request_of("first", 25, 1)), Submission(0.0, request_of("second", 10, 1))],
        on_step=lambda outcome: steps.append((outcome.plan.prefill_tokens, outcome.plan.admitted)),
    )
    assert steps == [(20, ("first",)), (15, ("second",))]


def test_running_requests_decode_between_the_chunks(small_engine, request_of):
    """A long prompt does not stop the tokens of those who are already answered."""
    engine = Engine(small_engine(prefill_budget_tokens=10))
    engine.submit(request_of("talking", 4, 9), 0.0)
    engine.step(0.0)
    engine.submit(request_of("long", 40, 1), 0.0)
    for _ in range(4):
        assert "talking" in [emission.request_id for emission in engine.step(0.0).emitted]
    assert engine.statistics().finished_total == 1
