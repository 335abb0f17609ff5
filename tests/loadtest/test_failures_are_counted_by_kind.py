"""Servers that refuse, reset, stall, and send other things than a response."""

import asyncio
import json
import socket
import struct

import pytest

from headgate.loadtest import Limits
from headgate.loadtest.http import MAX_HEAD_BYTES, MAX_RESPONSE_BYTES
from headgate.traffic.traces import TimedRequest

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
REQUEST = TimedRequest(at_s=0.0, prompt_tokens=8, output_tokens=2)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


WHOLE = HEAD + chunk(EVENT) + chunk(DONE) + b"0\r\n\r\n"
RESPONSES = {
    "closed before a response": (b"", "closed"),
    "closed in a response": (HEAD + chunk(EVENT), "closed"),
    "not http": (b"hello\r\n\r\n", "protocol"),
    "no completion": (HEAD + chunk(b"data: [1]\n\n"), "protocol"),
    "an error in the stream": (
        HEAD + chunk(EVENT + b'data: {"error": {"message": "m"}}\n\n'),
        "stream-error",
    ),
    "no last event": (HEAD + chunk(EVENT) + b"0\r\n\r\n", "incomplete"),
    "no token": (HEAD + chunk(DONE) + b"0\r\n\r\n", "empty"),
    "refused": (b"HTTP/1.1 429 Slow down\r\ncontent-length: 4\r\n\r\nbusy", "http 429"),
    "broken": (b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", "http 503"),
    "a redirect": (b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n", "http 302"),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (MAX_HEAD_BYTES // 4), "too-long"),
    "an endless error": (
        b"HTTP/1.1 500 No\r\ncontent-length: 99999999\r\n\r\n" + b"x" * (MAX_RESPONSE_BYTES + 1),
        "too-long",
    ),
}


@pytest.mark.parametrize(("response", "kind"), RESPONSES.values(), ids=RESPONSES)
async def test_each_failure_has_a_kind(raw_server, measured, read_body, response: bytes, kind: str) -> None:
    """And an example, with a message that fits a line."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader)
        writer.write(response)
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async with raw_server(reply) as url:
        tally = await measured(url, [REQUEST])
    [found] = tally.errors
    assert found == kind
    assert tally.requests == tally.errors[found] == 1
    assert tally.latency.count == 0
    assert len(tally.examples[found]) < 400


async def test_a_refused_connection_is_one(measured, held_port) -> None:
    """Nobody listens there."""
    tally = await measured(f"http://127.0.0.1:{held_port()}", [REQUEST])
    assert tally.errors == {"connect": 1}
    assert tally.examples["connect"].startswith("cannot connect: ")


async def test_a_name_that_does_not_exist_is_one(measured) -> None:
    """With the reason of the system, as when the model list is read."""
    tally = await measured("http://no.invalid", [REQUEST])
    assert tally.errors == {"connect": 1}
    assert "cannot be connected to" not in tally.examples["connect"]
    assert tally.examples["connect"].startswith("cannot connect: ")


async def test_a_reset_is_one(raw_server, measured, read_body) -> None:
    """The engine's process was killed, say."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader)
        writer.write(HEAD + chunk(EVENT))
        await writer.drain()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with raw_server(reply) as url:
        tally = await measured(url, [REQUEST])
    assert list(tally.errors) in (["reset"], ["closed"])


async def test_a_slow_response_is_one(raw_server, measured, read_body) -> None:
    """After the time limit of a request, also amid a stream."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader)
        writer.write(HEAD + chunk(EVENT))
        await reader.read()  # until the client gives up

    async with raw_server(reply) as url:
        tally = await measured(url, [REQUEST] * 3, timeout_s=0.2)
    assert tally.errors == {"timeout": 3}


async def test_a_tls_error_is_one(raw_server, measured) -> None:
    """The server does not speak TLS."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad\r\n\r\n")
        await writer.drain()

    async with raw_server(reply) as url:
        tally = await measured(url.replace("http:", "https:"), [REQUEST])
    assert list(tally.errors) == ["tls"]


async def test_connections_are_kept_and_replaced(raw_server, measured, read_body) -> None:
    """A server may close a connection that nobody uses; the next request gets a new one."""
    connections: list[int] = []

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        for _ in range(2):
            await read_body(reader)
            connections[-1] += 1
            writer.write(WHOLE)

    requests = [TimedRequest(at_s=0.1 * at, prompt_tokens=8, output_tokens=1) for at in range(5)]
    async with raw_server(reply) as url:
        tally = await measured(url, requests, limits=Limits(max_in_flight=1))
    assert tally.errors == {}
    assert connections == [2, 2, 1]


async def test_headers_and_sessions_are_sent(raw_server, measured) -> None:
    """With each request of a conversation, the same session."""
    heads: list[bytes] = []

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head)
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            json.loads(await reader.readexactly(length))
            writer.write(WHOLE)

    turns = [
        TimedRequest(at_s=0.0, prompt_tokens=8, output_tokens=1, session=3),
        TimedRequest(at_s=0.0, prompt_tokens=12, output_tokens=1, session=3, think_s=0.0),
    ]
    async with raw_server(reply) as url:
        tally = await measured(url, turns, headers=(("x-tier", "gold"),))
    assert tally.errors == {}
    assert len(heads) == 2
    assert all(b"\r\nx-tier: gold\r\n" in head and b"\r\nx-session-id: s-3\r\n" in head for head in heads)


async def test_headgates_decision_names_the_endpoint(raw_server, measured, read_body) -> None:
    """Decoded, and of bounded length."""
    decision = b"x-headgate-decision: route=default/chat; endpoint=default/small%201; attempts=1\r\n"

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader)
        writer.write(WHOLE.replace(b"OK\r\n", b"OK\r\n" + decision))
        await writer.drain()
        await reader.read()

    async with raw_server(reply) as url:
        tally = await measured(url, [REQUEST])
    assert list(tally.endpoints) == ["default/small 1"]
