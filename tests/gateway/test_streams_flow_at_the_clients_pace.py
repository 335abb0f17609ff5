"""Bytes are forwarded as they arrive, and no faster than the client reads them."""

import asyncio
import resource

import pytest

pytestmark = pytest.mark.every_loop

PIECE = bytes(range(256)) * 256
TOTAL = 64 * 1024 * 1024


@pytest.fixture
def many_files():
    """Lets this process have as many sockets as thousands of connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_every_piece_is_passed_on_at_once(gateway, endpoint):
    """Head and events reach the client while the endpoint is silent afterwards."""
    client = await gateway.connect()
    client.post({"model": "m", "stream": True})
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    assert (await client.head()).status == 200
    for place in range(5):
        event = b"data: %d\n\n" % place
        call.write(b"%x\r\n%b\r\n" % (len(event), event))
        assert await client.reader.readexactly(len(event) + 5) == b"%x\r\n%b\r\n" % (len(event), event)
    call.write(b"0\r\n\r\n")
    assert await client.reader.readexactly(5) == b"0\r\n\r\n"


class _Source:
    """Writes TOTAL bytes at its transport, as fast as that takes them, and counts."""

    def __init__(self, call):
        self.sent = 0
        self._call = call

    async def run(self):
        self._call.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % TOTAL)
        while self.sent < TOTAL:
            if self._call.transport.get_write_buffer_size() > len(PIECE):
                await asyncio.sleep(0.001)
                continue
            self._call.write(PIECE)
            self.sent += len(PIECE)


async def _until_it_stands_still(gateway, source) -> None:
    (connection,) = gateway.shell.clients.all
    async with asyncio.timeout(30):
        seen = -1
        while seen != source.sent or not connection.is_paused:
            seen = source.sent
            await asyncio.sleep(0.05)


async def test_slow_reader_holds_its_endpoint_back(gateway, endpoint):
    """A client that does not read costs one buffer; when it reads on, nothing is missing."""
    client = await gateway.connect(receive_buffer=16384)
    client.post()
    source = _Source(await endpoint.call())
    writing = asyncio.create_task(source.run())
    await _until_it_stands_still(gateway, source)
    connection = await gateway.taken()
    buffered = connection._transport.get_write_buffer_size()
    assert 16 * 1024 < buffered <= (64 + 256) * 1024  # it goes on at a quarter of 64 KB
    assert source.sent < TOTAL / 3  # the rest of what was taken is in the kernel's socket buffers
    await client.head()
    for _ in range(TOTAL // len(PIECE)):
        assert await client.reader.readexactly(len(PIECE)) == PIECE
    await writing


async def test_client_that_leaves_while_it_is_waited_for(gateway, endpoint, eventually):
    """A stream that stands still for a slow reader ends at once when the reader leaves."""
    client = await gateway.connect(receive_buffer=16384)
    client.post()
    source = _Source(await endpoint.call())
    writing = asyncio.create_task(source.run())
    await _until_it_stands_still(gateway, source)
    client.close()
    await endpoint.connections[0].lost
    await eventually(lambda: gateway.settled == 1)
    writing.cancel()


async def test_connection_given_back_by_a_slow_reader_is_readable(gateway, endpoint):
    """The pause of one request does not outlast it: the next on that connection gets its answer."""
    body = b"x" * 8_000_000
    endpoint.behave = lambda call: call.answer(body)
    slow = await gateway.connect(receive_buffer=8192)
    slow.post()
    connection = await gateway.taken()
    async with asyncio.timeout(30):
        while not connection.is_paused:
            await asyncio.sleep(0.001)
    assert (await slow.response()).body == body
    for _ in range(3):
        assert (await gateway.ask()).body == body
    assert len(endpoint.connections) == 1


async def test_next_request_of_a_slow_reader(gateway, endpoint, request_bytes):
    """Requests sent ahead by a client that reads late are all answered once it reads."""
    body = b"y" * 4_000_000
    endpoint.behave = lambda call: call.answer(body)
    slow = await gateway.connect(receive_buffer=8192)
    slow.send(request_bytes() * 4)
    await asyncio.sleep(0.1)
    assert len(endpoint.calls) < 4
    for _ in range(4):
        assert (await slow.response()).body == body


async def test_hundreds_of_streams_at_once(start_gateway, start_endpoint, many_files):
    """Each of 300 concurrent streams gets its own bytes, all of them."""
    count, events = 300, 10
    calls = []
    endpoints = [await start_endpoint(behave=calls.append) for _ in range(2)]
    gateway = await start_gateway(*endpoints)

    async def stream(place: int):
        client = await gateway.connect()
        client.post({"model": "m", "stream": True, "user": place})
        response = await client.response()
        assert response.body == b"".join(b"data: %d.%d\n\n" % (place, event) for event in range(events))

    async with asyncio.timeout(30):
        streams = [asyncio.create_task(stream(place)) for place in range(count)]
        while len(calls) < count:
            await asyncio.sleep(0.01)
        for call in calls:
            call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for event in range(events):
            for call in calls:
                text = b"data: %d.%d\n\n" % (call.json["user"], event)
                call.write(b"%x\r\n%b\r\n" % (len(text), text))
            await asyncio.sleep(0)
        for call in calls:
            call.write(b"0\r\n\r\n")
        await asyncio.gather(*streams)
    assert gateway.settled == count
