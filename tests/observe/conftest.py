"""A process that asks engines, and servers that write what a test tells them, byte for byte."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import uvloop

from headgate import observe

PATIENCE_S = 30.0
"""Nothing here takes nearly as long: it only turns a hang into a failure."""


def pytest_asyncio_loop_factories(config, item):
    """On the loop that gateways run on."""
    return {"uvloop": uvloop.new_event_loop}


@dataclass
class Call:
    """One request without a body, as a server received it."""

    target: str
    transport: asyncio.Transport

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def answer(self, body: bytes) -> None:
        self.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    def close(self) -> None:
        self.transport.close()


class Server(asyncio.Protocol):
    """One connection to a server."""

    def __init__(self, behave: Callable[[Call], object], connections: list[asyncio.Transport]) -> None:
        self._behave = behave
        self._connections = connections
        self._data = b""

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._connections.append(transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while b"\r\n\r\n" in self._data:
            head, _, self._data = self._data.partition(b"\r\n\r\n")
            self._behave(Call(head.split(b" ")[1].decode(), self._transport))


StartServer = Callable[[Callable[[Call], object]], Awaitable[int]]


@pytest.fixture
async def start_server() -> AsyncIterator[StartServer]:
    """Starts a server that does this with each call; gives its port."""
    servers: list[asyncio.Server] = []
    connections: list[asyncio.Transport] = []

    async def start(behave: Callable[[Call], object]) -> int:
        server = await asyncio.get_running_loop().create_server(
            lambda: Server(behave, connections), "127.0.0.1", 0
        )
        servers.append(server)
        return server.sockets[0].getsockname()[1]

    yield start
    for server in servers:
        server.close()
    for transport in connections:
        transport.abort()
    for server in servers:
        await server.wait_closed()


class NoTls:
    """Connects to servers that speak plain HTTP/1.1 alone."""

    def tls_context(self, verified, *, http2=False):
        raise AssertionError

    def speaking_http2(self, user, uploads, downloads):
        raise AssertionError


@pytest.fixture
async def process() -> AsyncIterator[observe.Process]:
    """What it started ends with the test."""
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[None]] = []

    def spawn(work):
        tasks.append(loop.create_task(work))
        return tasks[-1]

    yield observe.Process(loop=loop, clock=loop.time, rng=random.Random(1), spawn=spawn, connector=NoTls())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Waits until a condition holds."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.001)

    return wait
