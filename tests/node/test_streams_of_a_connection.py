"""Streams over one connection: bounded, independent ends, and none left when the peer is gone."""

import asyncio
import contextlib

import pytest

from headgate.node.kubelet import spdy, streams


class Peer:
    """The client's side of a connection, as API servers use it."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.encoder, self.decoder = spdy.Encoder(), spdy.Decoder()

    def open(self, stream, **headers):
        self.writer.write(self.encoder.open(stream, headers))

    async def frames(self):
        while data := await self.reader.read(4096):
            for frame in self.decoder.feed(data):
                yield frame


@pytest.fixture
async def pair():
    """A connection and its peer."""
    accepted = asyncio.Queue()
    server = await asyncio.start_server(lambda *ends: accepted.put_nowait(ends), "127.0.0.1", 0)
    async with server:
        ends = await asyncio.open_connection(*server.sockets[0].getsockname())
        reader, writer = await accepted.get()
        yield streams.Connection(reader, writer), Peer(*ends)
        for each in (writer, ends[1]):
            each.close()
            with contextlib.suppress(ConnectionError):
                await each.wait_closed()


async def test_bytes_go_both_ways_and_each_way_ends(pair):
    connection, peer = pair
    peer.open(1, streamtype="data")
    peer.writer.write(spdy.data(1, b"question", is_last=True))
    opened = connection.streams()
    stream = await anext(opened)
    reading = asyncio.create_task(anext(opened, None))
    assert stream.headers == {"streamtype": "data"}
    assert [await stream.read(), await stream.read()] == [b"question", b""]
    await stream.write(b"answer")
    stream.close()
    frames = peer.frames()
    assert await anext(frames) == spdy.Data(1, b"answer")
    assert await anext(frames) == spdy.Data(1, b"", True)
    peer.writer.close()
    assert await reading is None


async def test_a_reset_ends_one_stream(pair):
    connection, peer = pair
    peer.open(1)
    peer.open(3)
    opened = connection.streams()
    one, other = await anext(opened), await anext(opened)
    reading = asyncio.create_task(anext(opened, None))
    peer.writer.write(spdy.data(1, b"lost") + spdy.reset(1) + spdy.data(3, b"kept"))
    assert await other.read() == b"kept"
    with pytest.raises(ConnectionResetError):
        await one.read()
    with pytest.raises(ConnectionResetError):
        await one.write(b"more")
    peer.writer.close()
    await reading


async def test_a_stream_that_is_not_read_holds_little(pair):
    """The peer has to wait; once the stream is read, everything arrives."""
    connection, peer = pair
    peer.open(1)
    opened = connection.streams()
    stream = await anext(opened)
    reading = asyncio.create_task(anext(opened, None))
    size = 64 << 20

    async def send():
        for _ in range(size >> 16):
            peer.writer.write(spdy.data(1, bytes(1 << 16)))
            await peer.writer.drain()
        peer.writer.write(spdy.data(1, b"", is_last=True))

    sending = asyncio.create_task(send())
    await asyncio.sleep(0.3)
    assert connection._unread < streams.MAX_UNREAD_BYTES + (256 << 10)
    assert not sending.done()
    received = 0
    while part := await stream.read():
        received += len(part)
    assert received == size
    peer.writer.close()
    await asyncio.gather(sending, reading)


async def test_tiny_parts_count_more_than_their_bytes(pair):
    """Empty ones are not kept at all."""
    connection, peer = pair
    peer.open(1)
    opened = connection.streams()
    await anext(opened)
    reading = asyncio.create_task(anext(opened, None))
    peer.writer.write(spdy.data(1, b"") * 1000 + spdy.data(1, b"x") * 1000 + spdy.ping(7))
    assert await anext(peer.frames()) == spdy.Ping(7)
    assert connection._unread >= 1000 * 64
    peer.writer.close()
    await reading


async def test_streams_are_limited(pair, monkeypatch):
    monkeypatch.setattr(streams, "MAX_STREAMS", 2)
    connection, peer = pair
    for number in (1, 3, 5):
        peer.open(number)
    opened = connection.streams()
    await anext(opened)
    await anext(opened)
    reading = asyncio.create_task(anext(opened, None))
    assert await anext(peer.frames()) == spdy.Reset(5, spdy.REFUSED)
    peer.writer.close()
    await reading


@pytest.mark.parametrize("numbers", [(2,), (3, 3), (5, 3)], ids=["even", "twice", "back"])
async def test_numbers_of_streams_are_odd_and_rise(pair, numbers):
    connection, peer = pair
    for number in numbers:
        peer.open(number)
    with pytest.raises(spdy.ProtocolError):
        async for _ in connection.streams():
            pass


async def test_nobody_waits_for_a_peer_that_is_gone(pair):
    connection, peer = pair
    peer.open(1)
    opened = connection.streams()
    stream = await anext(opened)
    waiting = asyncio.create_task(stream.read())
    peer.writer.transport.abort()
    assert await anext(opened, None) is None
    with pytest.raises(ConnectionResetError):
        await waiting
