"""Pods whose pages a test writes, each at an address of its own with the same port, and a clock to set."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headgate import api
from headgate.controllers.autoscaling.pod_metrics import PodMetrics

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def page(text: str) -> Behave:
    """Answers with this page."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = text.encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    return behave


def raw(data: bytes) -> Behave:
    """Answers with these bytes, and closes the connection."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return behave


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never answers."""
    await reader.read()


class Pods:
    """Pods by name; what each answers may be changed at any time."""

    def __init__(self) -> None:
        self.behaviors: dict[str, Behave] = {}
        self.asked: list[str] = []
        self._pods: dict[str, api.Pod] = {}
        self._servers: list[asyncio.Server] = []
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        return self._port

    async def add(self, name: str, behave: Behave, *, ready: bool = True) -> api.Pod:
        number = len(self._pods) + 1
        address = f"127.77.{number // 250}.{number % 250 + 1}"
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, self._port))
        self._port = sock.getsockname()[1]
        self.behaviors[name] = behave

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._tasks.add(asyncio.current_task())
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    self.asked.append(f"{name} {head.split(b' ')[1].decode()}")
                    await self.behaviors[name](reader, writer)
            writer.transport.abort()

        self._servers.append(await asyncio.start_server(serve, sock=sock))
        self._pods[name] = pod = api.Pod(
            metadata=api.ObjectMeta(
                name=name, namespace="default", uid=f"uid-{name}", creation_timestamp="2026-01-31T08:15:00Z"
            ),
            status=api.PodStatus(
                phase="Running",
                pod_ip=address,
                conditions=[api.Condition(type="Ready", status="True" if ready else "False")],
            ),
        )
        return pod

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def pods() -> AsyncIterator[Pods]:
    made = Pods()
    yield made
    await made.close()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def metrics(clock: Clock) -> PodMetrics:
    return PodMetrics(clock)


@pytest.fixture(name="page")
def _page() -> Callable[[str], Behave]:
    return page


@pytest.fixture(name="raw")
def _raw() -> Callable[[bytes], Behave]:
    return raw


@pytest.fixture(name="silent")
def _silent() -> Behave:
    return silent
