"""Clients that are many, slow, or verbose get a Status and a closed connection; the others do not notice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.apiserver import Config, Running, running
from headgate.apiserver.connections import Limits

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], AbstractAsyncContextManager[Streams]]
NARROW = {"connections": 4, "head_bytes": 8000}


@pytest.fixture
def limits() -> Limits:
    return Limits(**NARROW, request_s=600, stalled_s=600)


@pytest.fixture
async def small(tmp_path: Path, widget_definition: Any, limits: Limits) -> AsyncIterator[Running]:
    """A server with narrow limits."""
    config = Config(tmp_path, port=0, definitions=[widget_definition], connections=limits)
    async with running(config) as server:
        yield server


@pytest.fixture
def connect(small: Running) -> Connect:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Streams]:
        context = ssl.create_default_context(cafile=small.identity.ca)
        port = int(small.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1 << 20)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    return opened


def head(server: Running, path: str = "/api/v1/namespaces", method: str = "GET", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {server.identity.token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def last_words(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """Status and body of an answer after which the server closes."""
    async with asyncio.timeout(30):
        answer = await reader.read()
    first, _, body = answer.partition(b"\r\n\r\n")
    return int(first.split()[1]), json.loads(body)


async def test_a_head_beyond_its_limit_is_refused(small: Running, connect: Connect) -> None:
    """A long query or many headers are 431, also if they never end."""
    async with connect() as (reader, writer):
        writer.write(head(small, "/api/v1/namespaces?labelSelector=" + "x" * 9000)[:-4])
        code, status = await last_words(reader)
    assert (code, status["kind"], status["reason"]) == (431, "Status", "RequestHeaderFieldsTooLarge")


async def test_a_client_that_leaves_amid_its_body_is_not_logged(
    small: Running, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Or anybody with a token could fill the log with tracebacks."""
    for _ in range(3):
        async with connect() as (_, writer):
            writer.write(head(small, method="POST", Content_Length="100") + b'{"metadata"')
            await writer.drain()
            await asyncio.sleep(0.05)
    async with asyncio.timeout(30):
        while small.door.statistics()["known"]:
            await asyncio.sleep(0.01)
    assert not caplog.records


@pytest.mark.parametrize("limits", [Limits(**NARROW, request_s=0.4, stalled_s=600)])
async def test_a_request_that_does_not_arrive_in_time_is_given_up(small: Running, connect: Connect) -> None:
    """A head, a body, or a whole request that dawdles ends with 408."""
    for begun in (b"", b"GET /api", head(small, method="POST", Content_Length="100") + b'{"metadata"'):
        async with connect() as (reader, writer):
            writer.write(begun)
            code, status = await last_words(reader)
        assert (code, status["reason"]) == (408, "Timeout")


async def test_a_connection_too_many_is_told_to_come_again(small: Running, connect: Connect) -> None:
    """While all of a user's are in use, one more gets 429; when one ends, there is room again."""
    watch = head(small, "/api/v1/configmaps?watch=true")
    async with AsyncExitStack() as stack:
        async with AsyncExitStack() as last:
            for each in (stack, stack, last):
                reader, writer = await each.enter_async_context(connect())
                writer.write(watch)
                assert b" 200 " in await reader.readline()
            async with connect() as (refused, asking):
                asking.write(head(small))
                assert (await last_words(refused))[0] == 429
        async with asyncio.timeout(30):
            while not await _is_served(small, connect):
                await asyncio.sleep(0.01)


async def test_idle_connections_make_room_for_others(small: Running, connect: Connect) -> None:
    """At the limit, the connection that has been idle for longest is closed for a new one."""
    async with connect() as (idle, _), connect(), connect(), connect():
        assert await _is_served(small, connect)
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                assert await idle.read() == b""


async def _is_served(server: Running, connect: Connect) -> bool:
    async with connect() as (reader, writer):
        writer.write(head(server))
        return b" 200 " in await reader.readline()


@pytest.mark.parametrize("limits", [Limits(**NARROW, request_s=600, stalled_s=0.5)])
async def test_a_watcher_that_reads_nothing_is_let_go(small: Running, connect: Connect) -> None:
    """While a watcher does not take its events, at most a small part waits for it, and not for long."""
    store, hub = small.parts.store, small.parts.hub
    async with connect() as (reader, writer):
        writer.write(head(small, "/api/v1/configmaps?watch=true"))
        assert b" 200 " in await reader.readline()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            while not hub.statistics()["watchers"]:
                await asyncio.sleep(0.01)
            number = 0
            while hub.statistics()["watchers"]:
                number += 1
                await _write(small, f"n{number}")
                await asyncio.sleep(0.01)
    assert store.told > number


async def _write(server: Running, name: str, size: int = 200_000) -> None:
    from headgate.apiserver.targets import Target, WriteOptions

    served = server.parts.registry.find("", "v1", "configmaps")
    assert served
    obj = {"metadata": {"name": name}, "data": {"weight": "x" * size}}
    server.parts.objects.create(Target(served, "default", ""), obj, WriteOptions(), [])
    await server.parts.store.settled()


@pytest.mark.parametrize("limits", [Limits(**NARROW, request_s=600, stalled_s=1)])
async def test_a_client_that_reads_a_little_now_and_then_is_let_go(small: Running) -> None:
    """It is not silent, so the system lets it be; but it takes far too long for the next part."""
    for number in range(20):
        await _write(small, f"n{number}", 1_000_000)
    context = ssl.create_default_context(cafile=small.identity.ca)
    raw = socket.create_connection(("127.0.0.1", int(small.url.rpartition(":")[2])))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    reader, writer = await asyncio.open_connection(
        sock=raw, ssl=context, server_hostname="127.0.0.1", limit=512
    )
    writer.write(head(small, "/api/v1/configmaps"))
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            while not small.parts.shared.rejected["stalled"]:
                await reader.read(256)
                await asyncio.sleep(0.02)
    writer.transport.abort()
    assert small.parts.shared.rejected["stalled"] == 1
