import pytest

from headgate.simulator.model import Engine, Submission, run_virtual


def test_received_tokens_are_not_computed_again(small_engine, request_of):
    """All but the last token are here: the first step prefills one token, and its cost is that of one."""
    engine = Engine(small_engine())
    engine.submit(request_of("a", 20, 3, received_tokens=20), 0.0)
    plan = engine.step(0.0).plan
    assert plan.prefill_tokens == 1
    assert plan.duration_s == pytest.approx(1.0 + 0.01)


def test_what_was_received_can_be_found_by_the_next(small_engine, request_of):
    """Its blocks are blocks like others; what was received is no hit."""
    engine = Engine(small_engine())
    first = request_of("a", 20, 1, received_tokens=20, blocks=range(5))
    run_virtual(engine, [Submission(0.0, first)])
    ends = run_virtual(engine, [Submission(0.0, request_of("b", 20, 1, blocks=range(5)))]).finished
    assert ends[0].cached_tokens == 16
    assert engine.statistics().prefix_hits_total == 16


def test_a_preempted_request_computes_what_it_had_received(small_engine, request_of):
    """The blocks are gone, and the other engine has given up its own."""
    engine = Engine(small_engine(kv_blocks=16))
    run = run_virtual(
        engine,
        [
            Submission(0.0, request_of("old", 28, 20)),
            Submission(0.0, request_of("new", 28, 20, received_tokens=28)),
        ],
    )
    assert [end.preemptions for end in run.finished] == [0, 1]
    assert engine.statistics().prefill_tokens_total > 28 + 1 + 28


def test_blocks_are_kept_for_another_engine_until_they_are_released(small_engine, request_of):
    """A prefill engine holds the prompt beyond the request's end, once."""
    engine = Engine(small_engine())
    run_virtual(engine, [Submission(0.0, request_of("a", 20, 1, keeps_kv=True))])
    engine.validate()
    assert engine.statistics().kv_blocks_used == 5
    assert engine.release_kv("a", 9.0)
    assert not engine.release_kv("a", 9.0)
    assert engine.statistics().kv_blocks_used == 0
    engine.validate()


def test_a_cancelled_request_keeps_nothing(small_engine, request_of):
    """Nobody will fetch it."""
    engine = Engine(small_engine())
    engine.submit(request_of("a", 20, 9, keeps_kv=True), 0.0)
    engine.step(0.0)
    engine.cancel("a", 1.5)
    assert engine.statistics().kv_blocks_used == 0
    assert not engine.release_kv("a", 9.0)
