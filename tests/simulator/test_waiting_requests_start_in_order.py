import pytest

from headgate.simulator.model import Engine, QueueFullError, Submission, run_virtual


def test_requests_are_admitted_first_come_first_served(small_engine, request_of):
    """Five requests for two places start in the order in which they came."""
    admitted = []
    run_virtual(
        Engine(small_engine()),
        [Submission(0.0, request_of(name)) for name in "abcde"],
        on_step=lambda outcome: admitted.extend(outcome.plan.admitted),
    )
    assert admitted == list("abcde")


def test_no_more_than_max_num_seqs_run(small_engine, request_of):
    """The batch is full at max_num_seqs; the others wait."""
    engine = Engine(small_engine())
    for name in "abcde":
        engine.submit(request_of(name), 0.0)
    engine.step(0.0)
    assert (engine.statistics().running, engine.statistics().waiting) == (2, 3)


def test_a_small_request_does_not_overtake_a_big_one(small_engine, request_of):
    """While the head of the queue finds too few free blocks, nobody behind it starts."""
    engine = Engine(small_engine(max_num_seqs=8))
    engine.submit(request_of("running", 30, 10), 0.0)
    engine.step(0.0)
    engine.submit(request_of("big", 40, 5), 1.0)
    engine.submit(request_of("small", 1, 1), 1.0)
    assert engine.step(1.0).plan.admitted == ()


def test_a_full_queue_refuses(small_engine, request_of):
    """Beyond max_num_seqs + max_waiting requests there is no place, until one ends."""
    engine = Engine(small_engine(max_waiting=1))
    for name in "abc":
        engine.submit(request_of(name), 0.0)
    with pytest.raises(QueueFullError, match="3 requests"):
        engine.submit(request_of("d"), 0.0)
    engine.cancel(request_of("a").request_id, 0.0)
    engine.submit(request_of("d"), 0.0)
    assert engine.statistics().refused_total == 1


def test_tokens_that_wait_are_counted_without_those_that_are_cached(small_engine, request_of):
    """Those of requests in the batch do not wait."""
    engine = Engine(small_engine(max_num_seqs=1))
    engine.submit(request_of("a", 20, blocks=tuple(range(5))), 0.0)
    engine.submit(request_of("b", 30, blocks=tuple(range(7))), 0.0)
    assert engine.waiting_tokens() == 50
    engine.step(0.0)
    assert engine.waiting_tokens() == 10


def test_an_id_is_unique_in_the_engine(small_engine, request_of):
    """A second request with an id that is in the engine is a mistake of the caller."""
    engine = Engine(small_engine())
    engine.submit(request_of("a"), 0.0)
    with pytest.raises(ValueError, match="request a: is in the engine already"):
        engine.submit(request_of("a"), 0.0)
