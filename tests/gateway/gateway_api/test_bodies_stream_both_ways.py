"""Bodies pass as they arrive, at the pace of the slower side, and what breaks off is told."""

from __future__ import annotations

import asyncio

import pytest


class Raw(asyncio.Protocol):
    """An endpoint that sees and writes bytes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.made = 0
        self.lost = asyncio.Event()

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.made += 1

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error) -> None:
        self.lost.set()


@pytest.fixture
async def raw(held_port):
    protocol = Raw()
    protocol.port = held_port()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol, "127.0.0.1", protocol.port, reuse_address=True)
    yield protocol
    server.close()


@pytest.fixture
async def client(front, raw, service, to):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", raw))
    return await front.connect()


HEAD = b"POST /up HTTP/1.1\r\nhost: a\r\n"


async def test_a_body_reaches_the_endpoint_before_it_is_complete(client, raw, eventually):
    client.send(HEAD + b"content-length: 10\r\n\r\nfirst")
    await eventually(lambda: raw.data.endswith(b"\r\n\r\nfirst"))
    assert b"content-length: 10\r\n" in raw.data
    client.send(b"-last")
    await eventually(lambda: raw.data.endswith(b"first-last"))
    raw.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    assert (await client.response()).body == b"ok"


async def test_chunks_are_framed_anew_and_lose_their_trailers(client, raw, eventually):
    client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n")
    await eventually(lambda: raw.data.endswith(b"\r\n\r\n5\r\nhello\r\n"))
    client.send(b"1\r\n!\r\n0\r\nx-trailer: 1\r\n\r\n")
    await eventually(lambda: raw.data.endswith(b"1\r\n!\r\n0\r\n\r\n"))
    assert b"transfer-encoding: chunked\r\n" in raw.data


async def test_a_response_passes_before_it_is_complete(client, raw, eventually):
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await eventually(lambda: raw.data)
    raw.transport.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
    head = await client.head()
    assert head.header("transfer-encoding") == "chunked"
    assert await client.reader.readexactly(10) == b"5\r\nfirst\r\n"
    raw.transport.write(b"0\r\n\r\n")
    assert await client.reader.readexactly(5) == b"0\r\n\r\n"
    client.send(b"GET /next HTTP/1.1\r\nhost: a\r\n\r\n")
    await eventually(lambda: b"GET /next" in raw.data)
    assert raw.made == 1


async def test_a_large_body_passes_in_both_directions(client, raw, eventually):
    """Far more than fits into any buffer, with slow readers on both sides."""
    size = 8 << 20
    client.send(HEAD + b"content-length: %d\r\n\r\n" % size)
    await eventually(lambda: raw.data)
    raw.transport.pause_reading()
    client.writer.write(b"u" * size)
    await asyncio.sleep(0.05)
    raw.transport.resume_reading()
    await eventually(lambda: len(raw.data) > size)
    assert bytes(raw.data[-size:]) == b"u" * size
    raw.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"d" * size)
    assert (await client.response()).body == b"d" * size


async def test_a_response_without_a_length_ends_with_the_connection(client, raw, eventually):
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await eventually(lambda: raw.data)
    raw.transport.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    raw.transport.close()
    response = await client.response()
    assert (response.header("connection"), response.body) == ("close", b"all of it")


async def test_a_response_that_breaks_off_is_reset(client, raw, eventually):
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await eventually(lambda: raw.data)
    raw.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
    await client.head()
    raw.transport.abort()
    with pytest.raises(ConnectionResetError):
        await client.reader.readexactly(100)


async def test_an_endpoint_that_closes_before_it_responds_is_told(client, raw, eventually):
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await eventually(lambda: raw.data)
    raw.transport.abort()
    assert (await client.response()).status == 502


async def test_an_endpoint_that_sends_no_http_is_told(client, raw, eventually):
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await eventually(lambda: raw.data)
    raw.transport.write(b"SSH-2.0-x\r\n\r\n")
    assert (await client.response()).status == 502


async def test_a_client_that_leaves_ends_the_request_at_the_endpoint(client, raw, eventually):
    client.send(HEAD + b"content-length: 10\r\n\r\nfirst")
    await eventually(lambda: raw.data)
    client.close()
    await raw.lost.wait()


async def test_a_response_before_the_end_of_the_body_closes_the_connection(client, raw, eventually):
    client.send(HEAD + b"content-length: 1000\r\n\r\nfirst")
    await eventually(lambda: raw.data)
    raw.transport.write(b"HTTP/1.1 413 X\r\ncontent-length: 2\r\n\r\nno")
    assert (await client.response()).status == 413
    assert await client.is_closed()


async def test_a_client_waits_for_leave_to_send_its_body(client, raw, eventually):
    client.send(HEAD + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    assert await client.reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"ok")
    await eventually(lambda: raw.data.endswith(b"ok"))
    assert b"expect" not in raw.data


async def test_pipelined_requests_are_answered_in_order(client, raw, eventually):
    client.send(b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\n")
    for number in (b"1", b"2"):
        await eventually(lambda: b"GET /%b" % number in raw.data)  # noqa: B023
        raw.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n" + number)
        assert (await client.response()).body == number


async def test_an_idle_connection_that_the_endpoint_closed_is_replaced(client, raw, eventually):
    for expected in (1, 2):
        client.send(HEAD + b"content-length: 4\r\n\r\nbody")
        await eventually(lambda: raw.data.endswith(b"body"))
        raw.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        assert (await client.response()).status == 200
        assert raw.made == expected
        raw.data.clear()
        raw.transport.abort()  # crosses with the next request, or is noticed before
