import pytest

from headgate.simulator.model import BlockRemoved, BlockStored, Engine, Submission, run_virtual


@pytest.fixture
def in_turn(small_engine, request_of):
    """Runs prompts of 25 tokens, 6 full blocks, one after the other on 16 blocks; gives engine and ends."""

    def run(*families, **config):
        engine = Engine(small_engine(**{"host_kv_blocks": 20, **config}))
        ends = []
        for at, family in enumerate(families):
            request = request_of(f"{family} {at}", 25, 1, blocks=range(family * 100, family * 100 + 6))
            ends += run_virtual(engine, [Submission(0.0, request)]).finished
        return engine, ends

    return run


def test_what_the_accelerator_drops_is_found_in_the_host(in_turn):
    """The first prompt has lost its end to the third; it comes back from the host."""
    engine, ends = in_turn(1, 2, 3, 1)
    assert [end.cached_tokens for end in ends] == [0, 0, 0, 24]
    statistics = engine.statistics()
    assert (statistics.prefix_hits_total, statistics.host_hits_total) == (12, 12)
    assert in_turn(1, 2, 3, 1, host_kv_blocks=0)[1][-1].cached_tokens == 12


def test_what_comes_from_the_host_takes_its_time(in_turn):
    """12 tokens at 0.5 s make the step 6 s longer."""
    slow = in_turn(1, 2, 3, 1, host_token_s=0.5)[1][-1]
    fast = in_turn(1, 2, 3, 1)[1][-1]
    assert slow.ttft_s == pytest.approx(fast.ttft_s + 6.0)


def test_the_host_drops_what_was_used_least_recently(in_turn):
    """Two blocks: of the three that were dropped, the first is gone, the end of the prompt."""
    _, ends = in_turn(1, 2, 3, 1, host_kv_blocks=2)
    assert ends[-1].cached_tokens == 20


def test_events_tell_the_medium(in_turn):
    """The host's blocks are stored and removed as such; what comes back is stored as the accelerator's."""
    engine, _ = in_turn(1, 2, 3, 1, host_kv_blocks=2)
    events = engine.take_kv_events()
    told = [(type(event), event.hashes) for event in events if event.medium == "CPU"]
    assert told[:2] == [(BlockStored, (105, 104, 103)), (BlockRemoved, (105,))]
    again = [event for event in events if isinstance(event, BlockStored) and event.request_id == "1 3"]
    assert [event.hashes for event in again] == [(103, 104), (105,)]


def test_a_cleared_cache_is_cleared_in_the_host_too(in_turn, request_of):
    """Nothing is found any more."""
    engine, _ = in_turn(1, 2, 3)
    assert engine.clear_prefix_cache()
    engine.validate()
    again = run_virtual(engine, [Submission(0.0, request_of("again", 25, 1, blocks=range(100, 106)))])
    assert again.finished[0].cached_tokens == 0
