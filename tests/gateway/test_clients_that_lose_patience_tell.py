"""Clients that leave after a long silence are evidence of a hang, if the endpoint sent nothing else."""

import pytest

LONG_S = 2.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def pool_of_two(start_gateway, start_endpoint):
    """The first takes requests and answers none, the second answers; how long that usually takes is known."""
    silent = await start_endpoint()
    gateway = await start_gateway(silent, await start_endpoint(b"yes"))
    gateway.move(0.0)
    (pool,) = gateway.shell.plane.pools.values()
    for _ in range(50):
        for waits in (*pool.evidence.silences, pool.evidence.first_tokens):
            waits.note(0.1)
    return gateway, pool, silent


def passes(gateway, seconds):
    """The gateway is not busy meanwhile."""
    gateway.move(seconds)
    for _ in range(2):
        gateway.shell.plane.health.begin_sweep(gateway.shell.now())


async def leave(gateway, silent, eventually, after_s, meanwhile=None):
    """A client waits for the first endpoint so long, and leaves; another is served by the second."""
    client = await gateway.connect()
    client.post()
    await silent.call()
    passes(gateway, after_s)
    if meanwhile is None:
        assert (await gateway.ask()).body == b"yes"
    else:
        await meanwhile()
    settled = gateway.settled
    client.close()
    await eventually(lambda: gateway.settled > settled)
    passes(gateway, 1.1)


async def test_an_endpoint_that_answers_nobody_is_ejected(pool_of_two, eventually, caplog):
    """After five of them, though none waits for the half minute after which a hang is told by its time."""
    gateway, pool, silent = pool_of_two
    for _ in range(5):
        await leave(gateway, silent, eventually, LONG_S + 0.1)
    assert pool.loads[0].ejection.count == 1
    assert gateway.metric("headgate_gateway_ejections_total", reason="hang") == 1
    assert "after responding to none of its requests, while other endpoints responded" in caplog.text
    for _ in range(5):
        assert (await gateway.ask()).body == b"yes"


async def test_clients_without_patience_tell_nothing(pool_of_two, eventually):
    """They leave before a response is late."""
    gateway, pool, silent = pool_of_two
    for _ in range(6):
        await leave(gateway, silent, eventually, LONG_S - 0.1)
    assert pool.loads[0].failures == 0


async def test_an_endpoint_that_answers_others_is_well(pool_of_two, eventually):
    """It is their own requests that take long."""
    gateway, pool, silent = pool_of_two

    async def served():
        other, another = await gateway.connect(), await gateway.connect()
        other.post()
        another.post()
        (await silent.call()).answer(b"yes")
        for client in (other, another):
            assert (await client.response()).body == b"yes"

    for _ in range(6):
        await leave(gateway, silent, eventually, LONG_S + 0.1, served)
    assert pool.loads[0].failures == 0


async def test_a_head_alone_is_no_answer(pool_of_two, eventually):
    """Engines may send the head of a stream at once, and go on doing so when their workers hang."""
    gateway, pool, silent = pool_of_two
    for _ in range(5):
        client = await gateway.connect()
        client.post({"model": "m", "stream": True})
        (await silent.call()).write(HEAD)
        assert (await client.head()).status == 200
        passes(gateway, LONG_S + 0.1)
        assert (await gateway.ask()).body == b"yes"
        settled = gateway.settled
        client.close()
        await eventually(lambda settled=settled: gateway.settled > settled)
        passes(gateway, 1.1)
    assert pool.loads[0].ejection.count == 1


async def test_streams_that_have_no_token_for_long_hang(pool_of_two, eventually):
    """Three of them are enough, though their heads have come."""
    gateway, pool, silent = pool_of_two
    pool.loads[1].rests(gateway.shell.now(), 300.0)
    clients = [await gateway.connect() for _ in range(3)]
    for client in clients:
        client.post({"model": "m", "stream": True})
        (await silent.call()).write(HEAD)
        assert (await client.head()).status == 200
    pool.loads[1].rested()
    gateway.move(31)
    assert (await gateway.ask()).body == b"yes"
    await eventually(lambda: pool.loads[0].ejection.count)  # when requests are looked at for silence


async def test_a_stream_that_has_begun_is_no_silence(pool_of_two, eventually):
    """Its client has other reasons."""
    gateway, pool, silent = pool_of_two
    client = await gateway.connect()
    client.post({"model": "m", "stream": True})
    (await silent.call()).write(HEAD + b"a\r\ndata: {}\n\n\r\n")
    await client.reader.readuntil(b"{}")
    assert (await gateway.ask()).body == b"yes"
    passes(gateway, LONG_S + 0.1)
    client.close()
    await eventually(lambda: gateway.settled == 2)
    assert pool.loads[0].failures == 0


async def test_where_nothing_is_heard_of_anybody_nobody_is_blamed(pool_of_two, eventually):
    """It may be the gateway, or the requests."""
    gateway, pool, silent = pool_of_two

    async def nothing():
        pass

    for _ in range(6):
        await leave(gateway, silent, eventually, LONG_S + 0.1, nothing)
    assert pool.loads[0].failures == 0
