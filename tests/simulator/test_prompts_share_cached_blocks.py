import pytest

from headgate.simulator.model import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    Engine,
    Submission,
    run_virtual,
)


@pytest.fixture
def run_in_turn(small_engine, request_of):
    """Runs requests one after the other on one engine; gives the engine and the ends by name."""

    def run(*requests, **config):
        engine = Engine(small_engine(**config))
        ends = {}
        for request in requests:
            ended = run_virtual(engine, [Submission(0.0, request)]).finished
            ends.update((end.request_id, end) for end in ended)
        return engine, ends

    return run


def test_full_blocks_of_a_prompt_are_found_by_the_next(run_in_turn, request_of):
    """Blocks of 4 tokens: of a prompt of 10, the first two are shared; only the rest is prefilled again."""
    engine, ends = run_in_turn(
        request_of("a", 10, blocks=(1, 2)), request_of("b", 12, blocks=(1, 2, 3)), request_of("c", 12)
    )
    assert [ends[name].cached_tokens for name in "abc"] == [0, 8, 0]
    statistics = engine.statistics()
    assert statistics.prefill_tokens_total == 10 + 4 + 12
    assert (statistics.prefix_queries_total, statistics.prefix_hits_total) == (34, 8)


def test_the_last_token_of_a_prompt_is_always_computed(run_in_turn, request_of):
    """A prompt of two full blocks that are both cached still computes the second."""
    _, ends = run_in_turn(request_of("a", 8, blocks=(1, 2)), request_of("b", 8, blocks=(1, 2)))
    assert ends["b"].cached_tokens == 4


def test_a_prefix_is_shared_only_from_its_front(run_in_turn, request_of):
    """A block that is cached behind one that is not helps nobody."""
    _, ends = run_in_turn(request_of("a", 10, blocks=(1, 2)), request_of("b", 10, blocks=(9, 2)))
    assert ends["b"].cached_tokens == 0


def test_the_hash_of_a_block_that_is_not_full_is_ignored(run_in_turn, request_of):
    """Traces name the last, partial block of a prompt too: it is never cached."""
    engine, ends = run_in_turn(request_of("a", 6, blocks=(1, 2)), request_of("b", 12, blocks=(1, 2, 3)))
    assert ends["b"].cached_tokens == 4
    assert engine.statistics().kv_blocks_cached == 3


def test_without_a_prefix_cache_nothing_is_found(run_in_turn, request_of):
    """`prefix_cache` switches all of it off."""
    engine, ends = run_in_turn(
        request_of("a", 10, blocks=(1, 2)), request_of("b", 10, blocks=(1, 2)), prefix_cache=False
    )
    assert ends["b"].cached_tokens == 0
    assert engine.statistics().kv_blocks_cached == 0
    assert engine.take_kv_events() == ()


def test_cached_blocks_of_nobody_do_not_count_as_used(run_in_turn, request_of):
    """Usage is what requests hold; a block that two of them share counts once."""
    engine, _ = run_in_turn(request_of("a", 10, blocks=(1, 2)))
    assert engine.statistics().kv_blocks_cached == 2
    assert engine.statistics().kv_usage == 0
    engine.submit(request_of("b", 10, blocks=(1, 2)), 0.0)
    engine.submit(request_of("c", 10, blocks=(1, 2)), 0.0)
    engine.step(0.0)
    assert engine.statistics().kv_blocks_used == 2 + 1 + 1


def test_a_prompt_is_found_from_the_step_that_computes_it(small_engine, request_of):
    """Of two equal prompts in one step, the second finds the blocks of the first."""
    engine = Engine(small_engine())
    for name in "ab":
        engine.submit(request_of(name, 9, blocks=(1, 2)), 0.0)
    plan = engine.step(0.0).plan
    assert (plan.admitted, plan.cached_tokens, plan.prefill_tokens) == (("a", "b"), (0, 8), 10)


def test_the_block_used_least_recently_is_taken_first_and_ends_before_fronts(run_in_turn, request_of):
    """A cache of 16 blocks: the oldest prompt loses its end, the others nothing."""
    engine, ends = run_in_turn(
        request_of("a", 25, 1, blocks=range(100, 106)),
        request_of("b", 25, 1, blocks=range(200, 206)),
        request_of("c", 25, 1, blocks=range(300, 306)),
        request_of("a again", 25, 1, blocks=range(100, 106)),
        request_of("b again", 25, 1, blocks=range(200, 206)),
    )
    removed = [event.hashes for event in engine.take_kv_events() if isinstance(event, BlockRemoved)]
    assert removed[0] == (105, 104, 103), "c needs 7 blocks, and 4 are empty"
    assert ends["a again"].cached_tokens == 12
    assert removed[1:] == [(205, 204, 203), (305, 304, 303)], "each takes 4 blocks, of which 1 is empty"
    assert ends["b again"].cached_tokens == 12


def test_a_preempted_request_finds_its_own_prompt_again(small_engine, request_of):
    """Recompute costs little if nobody took the blocks meanwhile; only the first start counts as a hit."""
    engine = Engine(small_engine(kv_blocks=16))
    events = [
        Submission(0.0, request_of("old", 28, 20)),
        Submission(0.0, request_of("new", 28, 20, blocks=range(7))),
    ]
    found = []
    run = run_virtual(
        engine,
        events,
        on_step=lambda outcome: found.extend(
            zip(outcome.plan.admitted, outcome.plan.cached_tokens, strict=True)
        ),
    )
    assert [name for name, _ in found] == ["old", "new", "new"]
    assert found[-1][1] > 0
    assert [end.cached_tokens for end in run.finished] == [0, 0]
    assert engine.statistics().prefix_hits_total == 0


def test_events_tell_what_can_be_found(small_engine, request_of):
    """Stored with the hash before them, chunk by chunk as they are computed."""
    engine = Engine(small_engine(prefill_budget_tokens=8))
    engine.submit(request_of("a", 18, blocks=(1, 2, 3, 4), adapter="sql"), 0.0)
    told = []
    for _ in range(3):
        engine.step(0.0)
        told.append(engine.take_kv_events())
    first, second = told[0][0], told[1][0]
    assert first == BlockStored(
        hashes=(1, 2), parent=None, block_size=4, request_id="a", position=0, adapter="sql", medium="GPU"
    )
    assert (second.hashes, second.parent, second.position) == ((3, 4), 2, 2)
    assert told[2] == ()


def test_a_block_that_is_computed_again_is_not_stored_again(run_in_turn, request_of):
    """The last block of a repeated prompt has a copy for its time; the named one is what is found later."""
    engine, ends = run_in_turn(
        request_of("a", 8, blocks=(1, 2)),
        request_of("b", 8, blocks=(1, 2)),
        request_of("c", 9, blocks=(1, 2)),
    )
    assert [event.hashes for event in engine.take_kv_events()] == [(1, 2)]
    assert ends["c"].cached_tokens == 8
    engine.validate()


def test_the_cache_is_cleared_only_while_nobody_holds_a_part_of_it(small_engine, request_of):
    """As an engine that goes to sleep does; one event says so."""
    engine = Engine(small_engine())
    engine.submit(request_of("a", 10, 1, blocks=(1, 2)), 0.0)
    engine.begin_step(0.0)
    assert not engine.clear_prefix_cache()
    engine.finish_step()
    engine.take_kv_events()
    assert engine.clear_prefix_cache()
    assert engine.take_kv_events() == (AllBlocksCleared(),)
    assert engine.statistics().kv_blocks_cached == 0
    engine.validate()
