import socket

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.cli.simulate import simulate
from headgate.simulator import server as simulator_server
from headgate.simulator.model import (
    BlockRemoved,
    BlockStored,
    ConfigError,
    Engine,
    EngineConfig,
    RemoteStore,
    RequestId,
    SimulatedRequest,
    StepCosts,
    Submission,
    run_virtual,
)

TIERS = ("GPU", "CPU", "DISK", "REMOTE")


@pytest.fixture
def engine_on(small_engine):
    """Makes engines on a store; their own caches hold 16 blocks of 4 tokens."""

    def make(store, **config):
        return Engine(small_engine(**{"remote_kv_blocks": store.blocks, **config}), store)

    return make


@pytest.fixture
def prompt_of(request_of):
    """Makes prompts of 25 tokens, 6 full blocks, that are equal within a family."""

    def make(family, name="a"):
        return request_of(f"{name}{family}", 25, 1, blocks=range(family * 100, family * 100 + 6))

    return make


def serve(engine, request, at_s=0.0):
    (end,) = run_virtual(engine, [Submission(at_s, request)]).finished
    engine.validate()
    return end


def hits(engine):
    now = engine.statistics()
    return (now.prefix_hits_total, now.host_hits_total, now.disk_hits_total, now.remote_hits_total)


def test_what_one_engine_computed_another_finds(engine_on, prompt_of):
    """All full blocks, and none where there is no store; its own cache goes first."""
    store = RemoteStore(100)
    one, other = engine_on(store), engine_on(store)
    alone = engine_on(RemoteStore(100), remote_kv_blocks=0)
    serve(one, prompt_of(1))
    serve(alone, prompt_of(1))
    assert serve(other, prompt_of(1)).cached_tokens == 24
    assert serve(other, prompt_of(1, "again")).cached_tokens == 24
    assert hits(other) == (24, 0, 0, 24)
    assert hits(alone) == (0, 0, 0, 0)


def test_a_prompt_is_there_once_its_step_is_over(engine_on, prompt_of):
    """An engine that starts meanwhile computes it, too."""
    store = RemoteStore(100)
    one, early, late = engine_on(store), engine_on(store), engine_on(store)
    one.submit(prompt_of(1), 0.0)
    one.begin_step(0.0)
    assert serve(early, prompt_of(1)).cached_tokens == 0
    one.finish_step()
    assert serve(late, prompt_of(1)).cached_tokens == 24


def test_answers_are_there_as_their_blocks_fill(engine_on, request_of):
    """Up to the last token, which is never computed."""
    store = RemoteStore(100)
    one, other = engine_on(store), engine_on(store)
    serve(one, request_of("a", 8, 9, blocks=(1, 2), answer_blocks=(3, 4)))
    assert serve(other, request_of("b", 20, 1, blocks=(1, 2, 3, 4, 5))).cached_tokens == 16


def test_what_comes_from_there_takes_its_latency_and_its_transfer(engine_on, prompt_of):
    """24 tokens of 1,000 bytes at 2,000 bytes a second, and 3 s before the first."""
    constants = {"kv_bytes_per_token": 1000, "remote_bytes_per_s": 2000.0}
    ttft_s = []
    for more in ({"remote_latency_s": 3.0, **constants}, {"remote_bytes_per_s": 1e18}):
        store = RemoteStore(100)
        serve(engine_on(store, **more), prompt_of(1))
        ttft_s.append(serve(engine_on(store, **more), prompt_of(1)).ttft_s)
    assert ttft_s[0] == pytest.approx(ttft_s[1] + 3.0 + 12.0)


def test_each_engine_tells_of_what_it_put_there(engine_on, prompt_of):
    """Of what is dropped, too, whoever needed the room; what was there already is told by nobody."""
    store = RemoteStore(8)
    one, other = engine_on(store), engine_on(store)
    serve(one, prompt_of(1))
    serve(other, prompt_of(1))
    serve(other, prompt_of(2))
    told = [
        [(type(event), event.hashes) for event in engine.take_kv_events() if event.medium == "REMOTE"]
        for engine in (one, other)
    ]
    first, second = tuple(range(100, 106)), tuple(range(200, 206))
    assert told == [[(BlockStored, first), (BlockRemoved, first[:4])], [(BlockStored, second)]]
    assert len(store) == 8


def test_blocks_that_are_put_there_again_are_the_newest():
    """What is dropped is what nobody computed or asked for the longest."""
    store = RemoteStore(2)
    tier = store.connect(tells=True)
    assert tier.put([1, 2]) == [1, 2]
    assert tier.put([1]) == []
    assert tier.put([3]) == [3]
    assert tier.take_dropped() == [2]
    assert [tier.use_one(block) for block in (1, 2, 3)] == [True, False, True]


def test_events_of_the_store_are_in_order(engine_on, prompt_of):
    """However late they are read: a block that was dropped and put there again is there."""
    store = RemoteStore(6)
    one, other = engine_on(store), engine_on(store)
    serve(one, prompt_of(1))
    serve(other, prompt_of(2))
    for family in (3, 4, 5):
        serve(one, prompt_of(family))
    serve(one, prompt_of(1, "again"))
    there = set()
    for event in one.take_kv_events():
        if event.medium == "REMOTE" and isinstance(event, BlockStored):
            assert not there & set(event.hashes), "stored twice"
            there |= set(event.hashes)
        elif event.medium == "REMOTE":
            there -= set(event.hashes)
    assert there == set(range(100, 106))


def test_a_cleared_engine_finds_its_blocks_there(engine_on, prompt_of):
    """Its own memory is empty; the store belongs to all."""
    engine = engine_on(RemoteStore(100))
    serve(engine, prompt_of(1))
    assert engine.clear_prefix_cache()
    assert serve(engine, prompt_of(1, "again")).cached_tokens == 24
    assert hits(engine)[3] == 24


def test_mistakes_of_the_store_are_told_all_at_once(small_engine):
    """Each by its field."""
    with pytest.raises(ConfigError) as error:
        small_engine(remote_kv_blocks=-1, remote_latency_s=-1.0, remote_bytes_per_s=0.0)
    for field in ("remote_kv_blocks", "remote_latency_s", "remote_bytes_per_s"):
        assert f"{field}: must be" in str(error.value)


async def test_engines_of_a_process_find_each_others_prompts(serve, fast):
    """Usage counts them, the metrics tell from where; one that begins anew finds them again."""
    body = {"model": "tiny", "prompt": "How deep is the canal? " * 20, "max_tokens": 1}
    store, engine = RemoteStore(100), fast(remote_kv_blocks=100)
    cached, pages = [], []
    async with serve(engine=engine, store=store) as one, serve(engine=engine, store=store) as other:
        for server in (one, other, other):
            answer = (await server.client.post("/v1/completions", json=body)).json()
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
            pages.append((await server.client.get("/metrics")).text)
            server.live.restart()
    assert cached == [0, 112, 112]
    for page, found in zip(pages, (0, 112, 112), strict=True):
        assert f'headgate_simulator_cached_tokens_total{{what="REMOTE"}} {found}.0' in page
        assert 'headgate_simulator_cached_tokens_total{what="GPU"} 0.0' in page
        assert f'vllm:external_prefix_cache_hits_total{{engine="0",model_name="tiny"}} {found}.0' in page
        assert 'vllm:external_prefix_cache_queries_total{engine="0",model_name="tiny"} 115.0' in page


@pytest.mark.parametrize("words", [["engine", "--data-parallel-size", "2"], ["fleet", "--replicas", "2"]])
def test_a_command_has_one_store_for_all_its_engines(monkeypatch, words):
    """Of as many blocks as fit into so many bytes."""
    made = []

    def run(served, on_listening):
        made.extend(served)

    monkeypatch.setattr(simulator_server, "run", run)
    monkeypatch.setattr(simulator_server, "listen", lambda host, port: socket.socket())
    size = ["--remote-kv-bytes", "1e9"] if words[0] == "engine" else ["--engine", "remote_kv_bytes=1e9"]
    result = CliRunner().invoke(simulate, [*words, "--port", "9000", *size], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    one, other = made
    assert one.store is other.store
    assert one.store.blocks == one.settings.engine.remote_kv_blocks == 1_000_000_000 // (16 * 131_072)


def test_a_size_is_said_once():
    """In bytes or in blocks."""
    words = ["engine", "--disk-kv-bytes", "1e9", "--disk-kv-blocks", "3"]
    result = CliRunner().invoke(simulate, words)
    assert "--disk-kv-bytes and --disk-kv-blocks: use only one of the two" in result.output


@pytest.mark.parametrize("size", ["5", "inf", "nan"])
@pytest.mark.parametrize("command", ["engine", "fleet"])
def test_a_size_holds_a_block_at_least(command, size):
    """Rather than none of them, which would be an engine without that tier."""
    words = ["--remote-kv-bytes", size] if command == "engine" else ["--engine", f"remote_kv_bytes={size}"]
    result = CliRunner().invoke(simulate, [command, *words], catch_exceptions=False)
    assert result.exit_code == 2
    assert "remote_kv_bytes" in result.output


class Books:
    """What a reader of events knows: for each engine what is where, and what should be found of a prompt."""

    def __init__(self, engines):
        self.engines = engines
        self.held = [{tier: set() for tier in TIERS} for _ in engines]
        self.found = [[0] * len(TIERS) for _ in engines]

    def expect(self, number, hashes, block_size):
        """Every block is found in the first tier that has it, up to one that none has."""
        tiers = [*(self.held[number][tier] for tier in TIERS[:3])]
        tiers.append(set().union(*(held["REMOTE"] for held in self.held)))
        at_least = 0
        for block in hashes:
            places = [at for at, tier in enumerate(tiers) if block in tier and at >= min(at_least, 1)]
            if not places:
                return
            at_least = places[0]
            self.found[number][at_least] += block_size

    def follow(self):
        for held, engine in zip(self.held, self.engines, strict=True):
            moved = {tier: [] for tier in TIERS}
            for event in engine.take_kv_events():
                tier, told = held[event.medium], set(event.hashes)
                if isinstance(event, BlockStored):
                    assert not tier & told, "stored twice"
                    tier |= told
                else:
                    assert tier >= told, "removed what was not there"
                    tier -= told
                    moved[event.medium] += event.hashes
            for tier, below in (("GPU", "CPU"), ("CPU", "DISK")):
                lost = set(moved[tier]) - held["GPU"] - held["CPU"] - held["DISK"] - set(moved[below])
                assert not lost, f"what {tier} dropped is not in {below}"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_block_is_lost_or_counted_twice_over_tiers(data):
    """Events, hits and sizes of all tiers of two engines agree with each other, after every request."""
    sizes = {"host_kv_blocks": 4, "disk_kv_blocks": 5, "remote_kv_blocks": data.draw(st.integers(1, 40))}
    costs = StepCosts(base_s=1, per_decode_sequence_s=0, per_kv_token_s=0, per_prefill_token_s=0)
    config = EngineConfig(
        costs=costs, max_model_len=40, prefill_budget_tokens=16, kv_blocks=12, block_size=4, **sizes
    )
    store = RemoteStore(config.remote_kv_blocks)
    engines = [Engine(config, store), Engine(config, store)]
    books = Books(engines)
    for number in range(data.draw(st.integers(1, 25))):
        at, family, blocks = data.draw(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(1, 9)))
        hashes = range(family * 100, family * 100 + blocks)
        books.expect(at, hashes, config.block_size)
        request = SimulatedRequest(
            request_id=RequestId(str(number)), prompt_tokens=4 * blocks + 1, output_tokens=2, blocks=hashes
        )
        before = sum(hits(engines[at]))
        assert serve(engines[at], request).cached_tokens == sum(hits(engines[at])) - before
        books.follow()
        assert [hits(engine) for engine in engines] == [tuple(found) for found in books.found]
        told = [held["REMOTE"] for held in books.held]
        assert not told[0] & told[1]
        assert len(told[0]) + len(told[1]) == len(store) <= store.blocks
