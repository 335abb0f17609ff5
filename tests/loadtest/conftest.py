"""Servers to measure: simulated engines with known step costs, and servers that send given bytes."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from headgate.loadtest import Form, Job, Limits, Server, Slo, Tally, Target, conversations, measure
from headgate.loadtest.http import parse
from headgate.simulator.model import PROFILES, StepCosts
from headgate.simulator.server import ServerSettings, listen, running
from headgate.traffic.traces import TimedRequest

STEP_S, TOKEN_S = 0.02, 0.0005
COSTS = StepCosts(base_s=STEP_S, per_decode_sequence_s=0, per_kv_token_s=0, per_prefill_token_s=TOKEN_S)
ENGINE = msgspec.structs.replace(PROFILES["fast"].config, costs=COSTS)

EngineUrl = Callable[..., contextlib.AbstractAsyncContextManager[str]]
Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RawServer = Callable[[Reply], contextlib.AbstractAsyncContextManager[str]]
Measure = Callable[..., Awaitable[Tally]]


@contextlib.asynccontextmanager
async def _engine(**settings: object) -> AsyncIterator[str]:
    made = ServerSettings(**{"engine": ENGINE, "models": ("tiny",), "drain_s": 0, **settings})  # type: ignore[arg-type]
    sock = listen("127.0.0.1", 0)
    async with running(made, sock):
        yield f"{'https' if made.speaks_tls else 'http'}://127.0.0.1:{sock.getsockname()[1]}"


@pytest.fixture
def engine() -> EngineUrl:
    """Starts a simulated engine for the length of an `async with`, which returns its URL."""
    return _engine


@contextlib.asynccontextmanager
async def _raw(reply: Reply) -> AsyncIterator[str]:
    replying: set[asyncio.Task[None]] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        replying.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await reply(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)  # in which the loop closes the socket

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
        for task in replying:
            task.cancel()
        await asyncio.gather(*replying, return_exceptions=True)
        await asyncio.sleep(0.01)


@pytest.fixture
def raw_server() -> RawServer:
    """Serves each connection with a function of reader and writer, and then aborts it."""
    return _raw


async def _measure(
    url: str,
    requests: list[TimedRequest],
    *,
    slo: Slo | None = None,
    limits: Limits | None = None,
    timeout_s: float = 30.0,
    stop: asyncio.Event | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    target: dict[str, str] | None = None,
    **form: object,
) -> Tally:
    job = Job(
        target=Target(url=url, headers=list(headers), **(target or {})),  # type: ignore[arg-type]
        form=Form(**{"model": "tiny", **form}),  # type: ignore[arg-type]
        plan=conversations(requests),
        salt="s",
        slo=slo or Slo(),
        limits=limits or Limits(),
        timeout_s=timeout_s,
    )
    tally, _ = await measure(job, stop or asyncio.Event(), lambda _: None)
    return tally


@pytest.fixture
def measured() -> Measure:
    """Runs a plan against a server, and returns what was counted."""
    return _measure


async def request_body(reader: asyncio.StreamReader) -> bytes:
    """The body of the next request of a connection; raises IncompleteReadError at its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    return await reader.readexactly(length)


@pytest.fixture
def read_body() -> Callable[[asyncio.StreamReader], Awaitable[bytes]]:
    """Reads the body of the next request."""
    return request_body


async def _eventually_shown(url: str, line: bytes) -> None:
    server = parse(url)
    async with asyncio.timeout(20):
        while not re.search(line, await _page(server), re.MULTILINE):
            await asyncio.sleep(0.02)


async def _page(server: Server) -> bytes:
    return (await server.get("/metrics", 5.0)).body


@pytest.fixture
def eventually_shown() -> Callable[[str, bytes], Awaitable[None]]:
    """Waits until the metrics page of an engine has a line that matches a pattern."""
    return _eventually_shown
