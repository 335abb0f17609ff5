"""The HTTP below the client: responses in any framing and any pieces, and connections that are used again."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import httpx2
import pytest

from headgate.cluster.http1 import Http1Transport

KEPT = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Server:
    """Answers every request with the same bytes, in pieces, and counts its connections."""

    def __init__(self, answer: bytes, piece: int = 1 << 20, ends: bool = False) -> None:
        self._answer, self._piece, self._ends = answer, piece, ends
        self.connections = 0
        self.handlers: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.handlers.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                for at in range(0, len(self._answer), self._piece):
                    writer.write(self._answer[at : at + self._piece])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._ends:
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def client(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    transport = Http1Transport(ssl.create_default_context(), most=4, keepalive_s=60.0)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{port}") as http:
            yield http
        await asyncio.gather(*(each for each in server.handlers if each is not None))


@pytest.mark.parametrize("piece", [1, 7, 1000])
@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        (KEPT, False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + KEPT, False),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", True),
    ],
)
async def test_a_body_ends_as_its_head_says(answer, ends, piece):
    async with client(Server(answer, piece, ends)) as http:
        assert (await http.get("/")).text == "hello"


async def test_requests_one_after_another_share_a_connection():
    server = Server(KEPT)
    async with client(server) as http:
        for _ in range(5):
            await http.get("/")
    assert server.connections == 1


async def test_more_requests_than_connections_wait():
    server = Server(KEPT)
    async with client(server) as http:
        found = await asyncio.gather(*(http.get("/") for _ in range(20)))
    assert {each.text for each in found} == {"hello"}
    assert server.connections <= 4


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * (2 << 20),
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
async def test_anything_else_is_an_error_of_the_transport(answer):
    async with client(Server(answer, ends=True)) as http:
        with pytest.raises(httpx2.TransportError):
            await http.get("/")


async def test_a_body_that_is_longer_than_what_is_held_arrives_complete():
    body = bytes(range(256)) * (1 << 16)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with client(Server(answer)) as http, http.stream("GET", "/") as response:
        parts = []
        async for part in response.aiter_raw():
            parts.append(part)
            await asyncio.sleep(0)
    assert b"".join(parts) == body


async def test_a_request_cannot_be_split_by_a_header():
    async with client(Server(KEPT)) as http:
        with pytest.raises(httpx2.LocalProtocolError):
            await http.get("/", headers=[(b"a", b"b\r\nc: d")])
