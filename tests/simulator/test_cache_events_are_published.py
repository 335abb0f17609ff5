import asyncio
import contextlib

import msgspec
import pytest
import zmq
import zmq.asyncio

from headgate.simulator.server import KvEventsConfig

TEXT = "/v1/completions"
END = 2**64 - 1


def publishing(**settings):
    local = {"endpoint": "tcp://127.0.0.1:0", "replay_endpoint": "tcp://127.0.0.1:0"}
    return KvEventsConfig(**local | settings)


async def sources(server):
    return (await server.client.get("/kv_event_sources")).json()


@contextlib.asynccontextmanager
async def reader(address, kind):
    """A socket of ZMQ that is connected to an address, and lets go of it."""
    context = zmq.asyncio.Context()
    socket = context.socket(kind)
    if kind == zmq.SUB:
        socket.subscribe(b"")
    socket.connect(address)
    try:
        yield socket
    finally:
        context.destroy(linger=0)


async def replayed(address, first=0):
    """The batches from a number on, as who missed them gets them: number and decoded payload."""
    async with asyncio.timeout(60), reader(address, zmq.DEALER) as socket:
        await socket.send_multipart((b"", first.to_bytes(8, "big")))
        batches = []
        while True:
            empty, number, payload = await socket.recv_multipart()
            assert empty == b""
            if int.from_bytes(number, "big") == END:
                assert payload == b""
                return batches
            batches.append((int.from_bytes(number, "big"), msgspec.msgpack.decode(payload)))


async def ask(server, prompt, **body):
    asked = {"model": "tiny", "prompt": prompt, "max_tokens": 1} | body
    assert (await server.client.post(TEXT, json=asked)).status_code == 200


async def test_a_subscriber_gets_topic_number_and_batch(serve):
    """Three frames; the topic names the address of the server and its model."""
    async with serve(kv_events=publishing()) as server, asyncio.timeout(60):
        [source] = await sources(server)
        async with reader(source["endpoint"], zmq.SUB) as socket:
            prompt = 0
            while not await socket.poll(20):  # until the subscription has arrived there
                prompt += 1
                await ask(server, [prompt] * 16)
            topic, number, payload = await socket.recv_multipart()
    port = server.client.base_url.port
    assert topic.decode() == source["topic"] == f"kv@127.0.0.1:{port}@tiny"
    assert len(number) == 8
    at, events, rank = msgspec.msgpack.decode(payload)
    assert (isinstance(at, float), rank) == (True, 0)
    assert events[0]["type"] == "BlockStored"


async def test_an_engine_can_connect_to_its_subscriber(serve):
    """One that listens for several engines, each of which names itself."""
    context = zmq.asyncio.Context()
    try:
        listening = context.socket(zmq.SUB)
        listening.subscribe(b"")
        address = f"tcp://127.0.0.1:{listening.bind_to_random_port('tcp://127.0.0.1')}"
        settings = KvEventsConfig(endpoint=address, connect=True)
        async with asyncio.timeout(60), serve(kv_events=settings) as server:
            prompt = 0
            while not await listening.poll(20):  # until the connection is there
                prompt += 1
                await ask(server, [prompt] * 16)
            topic, *_ = await listening.recv_multipart()
            [source] = await sources(server)
    finally:
        context.destroy(linger=0)
    assert topic.decode() == f"kv@127.0.0.1:{server.client.base_url.port}@tiny"
    assert source["endpoint"] == address


async def test_blocks_come_with_their_tokens_and_their_parent(serve, fast):
    """A prompt's new blocks, as maps; what is known already is not told again."""
    async with serve(kv_events=publishing(), engine=fast(block_size=4)) as server:
        [source] = await sources(server)
        await ask(server, list(range(10)))
        await ask(server, [*range(8), 50, 51, 52, 53, 54])
        batches = await replayed(source["replay_endpoint"])
    assert [number for number, _ in batches] == [0, 1]
    [first], [second] = batches[0][1][1], batches[1][1][1]
    assert first["parent_block_hash"] is None
    assert (first["token_ids"], first["block_size"], first["medium"]) == (list(range(8)), 4, "GPU")
    assert len(first["block_hashes"]) == 2
    assert second["parent_block_hash"] == first["block_hashes"][-1]
    assert second["token_ids"] == [50, 51, 52, 53]
    assert (second["lora_id"], second["lora_name"]) == (None, None)


async def test_arrays_are_vllms_former_form(serve, adapter):
    """The same fields by position; adapters have a number and a name."""
    config = publishing(form="array")
    async with serve(kv_events=config, lora_modules=(adapter("sql"),)) as server:
        [source] = await sources(server)
        await ask(server, [1] * 16, model="sql")
        [(_, (_, [event], _))] = await replayed(source["replay_endpoint"])
    assert event[0] == "BlockStored"
    assert event[2:] == [None, [1] * 16, 16, 1, "GPU", "sql"]


async def test_blocks_that_make_room_are_told(serve, fast):
    """BlockRemoved names what is no longer found."""
    engine = fast(max_model_len=32, kv_blocks=8, block_size=4)
    async with serve(kv_events=publishing(), engine=engine) as server:
        [source] = await sources(server)
        for number in range(3):
            await ask(server, [number] * 16)
        events = [event for _, batch in await replayed(source["replay_endpoint"]) for event in batch[1]]
    stored = [block for event in events if event["type"] == "BlockStored" for block in event["block_hashes"]]
    removed = [
        block for event in events if event["type"] == "BlockRemoved" for block in event["block_hashes"]
    ]
    assert removed
    assert set(removed) < set(stored)


async def test_a_replay_begins_where_it_is_told_and_has_what_is_kept(serve):
    """Later batches only; beyond `buffer_steps` the oldest are gone."""
    async with serve(kv_events=publishing(buffer_steps=3)) as server:
        [source] = await sources(server)
        for number in range(5):
            await ask(server, [number] * 16)
        assert [number for number, _ in await replayed(source["replay_endpoint"])] == [2, 3, 4]
        assert [number for number, _ in await replayed(source["replay_endpoint"], 4)] == [4]
        assert await replayed(source["replay_endpoint"], 9) == []


async def test_batches_can_be_larger(serve):
    """Events are held back until there are enough of them."""
    async with serve(kv_events=publishing(batch_events=3, batch_delay_s=600)) as server:
        [source] = await sources(server)
        for number in range(7):
            await ask(server, [number] * 16)
        batches = await replayed(source["replay_endpoint"])
    assert [len(batch[1]) for _, batch in batches] == [3, 3]


async def test_each_rank_has_its_own_source(serve):
    """Data-parallel ranks publish apart, and say which they are."""
    async with serve(kv_events=publishing(), data_parallel_size=2) as server:
        both = await sources(server)
        for rank in (0, 1):
            body = {"model": "tiny", "prompt": [rank] * 16, "max_tokens": 1}
            await server.client.post(TEXT, json=body, headers={"x-data-parallel-rank": str(rank)})
        for rank, source in enumerate(both):
            [(_, (_, [event], told))] = await replayed(source["replay_endpoint"])
            assert (told, event["token_ids"]) == (rank, [rank] * 16)


async def test_without_settings_there_are_no_sources(serve):
    """Nothing is published unless it is asked for."""
    async with serve() as server:
        assert await sources(server) == []


@pytest.mark.parametrize("junk", [(b"x",), (b"", b"short"), (b"", b"1" * 8, b"more")])
async def test_junk_on_the_replay_socket_is_ignored(serve, junk):
    """The next one who asks properly is answered."""
    async with serve(kv_events=publishing()) as server, asyncio.timeout(60):
        [source] = await sources(server)
        async with reader(source["replay_endpoint"], zmq.DEALER) as socket:
            await socket.send_multipart(junk)
            await socket.send_multipart((b"", (0).to_bytes(8, "big")))
            assert (await socket.recv_multipart())[1] == END.to_bytes(8, "big")


async def test_hashes_follow_their_seed(serve, fast):
    """Equal seeds name a block alike, others do not."""
    told = []
    for seed in ("1", "1", "2"):
        async with serve(kv_events=publishing(), engine=fast(block_size=4), hash_seed=seed) as server:
            [source] = await sources(server)
            await ask(server, list(range(10)))
            [(_, (_, [event, *_], _))] = await replayed(source["replay_endpoint"])
            told.append(event["block_hashes"])
    assert told[0] == told[1]
    assert not set(told[0]) & set(told[2])
