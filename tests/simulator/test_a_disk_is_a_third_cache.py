import pytest

from headgate.simulator.model import (
    BlockRemoved,
    BlockStored,
    ConfigError,
    Engine,
    Submission,
    run_virtual,
)


@pytest.fixture
def in_turn(small_engine, request_of):
    """Runs prompts of 25 tokens, 6 full blocks, one after the other on 16 blocks; gives engine and ends."""

    def run(*families, **config):
        engine = Engine(small_engine(**{"host_kv_blocks": 2, "disk_kv_blocks": 20, **config}))
        ends = []
        for at, family in enumerate(families):
            request = request_of(f"{family} {at}", 25, 1, blocks=range(family * 100, family * 100 + 6))
            ends += run_virtual(engine, [Submission(0.0, request)]).finished
        engine.validate()
        return engine, ends

    return run


def test_what_the_host_drops_is_found_on_the_disk(in_turn):
    """Of three blocks that the accelerator dropped, the host has two; the end is on the disk."""
    engine, ends = in_turn(1, 2, 3, 1)
    assert ends[-1].cached_tokens == 24
    statistics = engine.statistics()
    assert statistics.prefix_hits_total == 12
    assert (statistics.host_hits_total, statistics.disk_hits_total) == (8, 4)
    assert in_turn(1, 2, 3, 1, disk_kv_blocks=0)[1][-1].cached_tokens == 20


def test_without_a_cache_in_the_host_the_disk_has_what_the_accelerator_drops(in_turn):
    """All three blocks."""
    engine, ends = in_turn(1, 2, 3, 1, host_kv_blocks=0)
    assert ends[-1].cached_tokens == 24
    assert engine.statistics().disk_hits_total == 12


def test_what_comes_from_the_disk_takes_its_latency_and_its_transfer(in_turn):
    """4 tokens of 1,000 bytes at 2,000 bytes a second, and 3 s before the first."""
    constants = {"kv_bytes_per_token": 1000, "disk_bytes_per_s": 2000.0}
    slow = in_turn(1, 2, 3, 1, disk_latency_s=3.0, **constants)[1]
    fast = in_turn(1, 2, 3, 1, disk_bytes_per_s=1e18)[1]
    assert slow[-1].ttft_s == pytest.approx(fast[-1].ttft_s + 3.0 + 2.0)
    assert [end.ttft_s for end in slow[:3]] == [end.ttft_s for end in fast[:3]], "none of these was there"


def test_events_tell_that_blocks_moved_to_the_disk(in_turn):
    """What the host drops is removed there and stored here; what the disk drops is nowhere any more."""
    engine, _ = in_turn(1, 2, 3, disk_kv_blocks=1)
    told = [
        (type(event), event.medium, event.hashes)
        for event in engine.take_kv_events()
        if event.medium != "GPU"
    ]
    assert told == [
        (BlockStored, "CPU", (105, 104, 103)),
        (BlockRemoved, "CPU", (105,)),
        (BlockStored, "DISK", (105,)),
    ]
    engine, _ = in_turn(1, 2, 3, 4, disk_kv_blocks=1)
    last = engine.take_kv_events()
    assert any(type(event) is BlockRemoved and event.medium == "DISK" for event in last)


def test_a_cleared_cache_is_cleared_on_the_disk_too(in_turn, request_of):
    """Nothing is found any more."""
    engine, _ = in_turn(1, 2, 3)
    assert engine.clear_prefix_cache()
    again = run_virtual(engine, [Submission(0.0, request_of("again", 25, 1, blocks=range(100, 106)))])
    assert again.finished[0].cached_tokens == 0


def test_mistakes_of_the_disk_are_told_all_at_once(small_engine):
    """Each by its field."""
    with pytest.raises(ConfigError) as error:
        small_engine(disk_kv_blocks=-1, disk_latency_s=-1.0, disk_bytes_per_s=0.0)
    for field in ("disk_kv_blocks", "disk_latency_s", "disk_bytes_per_s"):
        assert f"{field}: must be" in str(error.value)
