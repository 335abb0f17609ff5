"""Many clients that upload at once leave most of each turn of the event loop to others."""

import asyncio
from collections import Counter

import pytest

from headgate import loop_turns as turns
from headgate.gateway.listener import ClientConnection

pytestmark = pytest.mark.every_loop

UPLOADS = 24
LENGTH = 4_000_000
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n"


@pytest.fixture
async def long_reads(monkeypatch):
    """How many connections that had just brought a long read were read again, by turn of the event loop."""
    loop = asyncio.get_running_loop()
    turn, found, long = 0, Counter(), set()
    receive = ClientConnection.data_received

    def next_turn():
        nonlocal turn
        turn += 1
        loop.call_soon(next_turn)

    def counted(connection, data):
        if connection in long:
            found[turn] += 1
        long.discard(connection)
        if len(data) >= turns.LONG_READ_BYTES:
            long.add(connection)
        receive(connection, data)

    next_turn()
    monkeypatch.setattr(ClientConnection, "data_received", counted)
    return found


@pytest.mark.counts_calls
async def test_bodies_are_read_by_turns(long_reads, gateway, endpoint):
    """Few of the uploads are read again in any one turn; all of them arrive whole."""
    endpoint.behave = lambda call: call.answer()
    body = b'{"model":"m","prompt":"%b"}' % (b"y" * LENGTH)
    head = CHAT + b"content-length: %d\r\n\r\n" % len(body)

    async def upload():
        client = await gateway.connect()
        client.send(head)
        client.send(body)
        assert (await client.response()).status == 200

    await asyncio.gather(*(upload() for _ in range(UPLOADS)))
    assert {call.body for call in endpoint.calls} == {body}
    assert len(endpoint.calls) == UPLOADS
    assert long_reads.total() >= UPLOADS
    assert max(long_reads.values()) <= turns.LONG_READS


async def test_rejected_bodies_take_turns_too(long_reads, gateway):
    """Nobody looks at what a rejected client goes on sending, but reading it takes time as well."""
    head = CHAT + b"content-length: %d\r\n\r\n" % 10**12

    async def upload():
        client = await gateway.connect()
        client.send(head)
        client.send(b"y" * LENGTH)
        assert (await client.response()).status == 413

    await asyncio.gather(*(upload() for _ in range(UPLOADS)))
    assert max(long_reads.values(), default=0) <= turns.LONG_READS


@pytest.mark.counts_calls
async def test_tiny_chunks_of_many_clients_take_turns(monkeypatch, gateway, endpoint):
    """Where a piece takes as long as a turn may, one connection goes on in each turn; all bodies arrive."""
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr(turns, "QUICK_S", 0.0)
    loop = asyncio.get_running_loop()
    turn, found = 0, Counter()
    read_on = ClientConnection._read_on

    def next_turn():
        nonlocal turn
        turn += 1
        loop.call_soon(next_turn)

    def counted(connection):
        found[turn] += 1
        return read_on(connection)

    next_turn()
    monkeypatch.setattr(ClientConnection, "_read_on", counted)
    endpoint.behave = lambda call: call.answer()
    body = b'{"model":"m","prompt":"%b"}' % (b"y" * 5_000)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"

    async def upload():
        client = await gateway.connect()
        client.send(CHAT + b"transfer-encoding: chunked\r\n\r\n" + chunks)
        assert (await client.response()).status == 200

    await asyncio.gather(*(upload() for _ in range(UPLOADS)))
    assert {call.body for call in endpoint.calls} == {body}
    assert found.total() >= UPLOADS
    assert max(found.values()) == 1


async def test_one_that_waits_again_goes_on_once_a_turn():
    """However often a connection waits again, it goes on once in each turn of the loop."""
    loop = asyncio.get_running_loop()
    uploads, turn, found, done = turns.Turns(loop), 0, Counter(), asyncio.Event()

    def next_turn():
        nonlocal turn
        turn += 1
        if not done.is_set():
            loop.call_soon(next_turn)

    def read_on():
        found[turn] += 1
        if found.total() < 20:
            uploads.wait(read_on)
        else:
            done.set()

    next_turn()
    uploads.wait(read_on)
    await done.wait()
    assert set(found.values()) == {1}
    assert uploads.statistics() == {"waiting": 0}


async def test_a_fault_of_one_leaves_nobody_waiting():
    """The others go on, and the loop reports the fault."""
    loop = asyncio.get_running_loop()
    uploads, done, faults = turns.Turns(loop), asyncio.Event(), []
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))

    def fail():
        raise RuntimeError("a fault")

    for _ in range(turns.LONG_READS):
        uploads.wait(fail)
    uploads.wait(lambda: done.set() or False)
    await asyncio.wait_for(done.wait(), 30)
    assert len(faults) == turns.LONG_READS


async def test_a_request_behind_an_upload_is_served(gateway, endpoint):
    """A connection that waited for its turn goes on to the next requests, which were sent ahead."""
    endpoint.behave = lambda call: call.answer()
    body = b'{"model":"m","prompt":"%b"}' % (b"y" * LENGTH)
    client = await gateway.connect()
    for _ in range(3):
        client.send(CHAT + b"content-length: %d\r\n\r\n" % len(body) + body)
        client.post()
    for _ in range(6):
        assert (await client.response()).status == 200


async def test_a_client_that_leaves_while_it_waits_is_forgotten(gateway, endpoint):
    """Nothing is held of an upload that is cut off, and others go on."""
    for _ in range(5):
        client = await gateway.connect()
        client.send(CHAT + b"content-length: 8000000\r\n\r\n" + b"y" * LENGTH)
        await asyncio.sleep(0)
        client.writer.transport.abort()
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    client.post()
    assert (await client.response()).status == 200
    async with asyncio.timeout(30):
        while (
            gateway.shell.services.bodies.held or gateway.shell.services.turns.uploads.statistics()["waiting"]
        ):
            await asyncio.sleep(0.01)
