"""One user's watches, connections, unread answers and floods of requests leave the others what they need."""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import Config, Role, Running, Tokens, running
from headgate.apiserver.app import application
from headgate.apiserver.connections import Limits
from headgate.apiserver.parts import Parts
from headgate.apiserver.targets import Target, WriteOptions

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], AbstractAsyncContextManager[Streams]]
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
WATCH = "/api/v1/configmaps?watch=true&resourceVersion="
MANY = Limits(connections=40, request_s=600, stalled_s=600)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Eight watches, half a megabyte of unread answers, forty connections."""
    small = {"max_watchers": 8, "unread_bytes": 2 << 20, "body_bytes": 4 << 20}
    return Config(tmp_path, port=0, definitions=[], connections=MANY, **small)


@pytest.fixture
async def shared(config: Config) -> AsyncIterator[Running]:
    async with running(config) as server:
        yield server


@pytest.fixture
def token(shared: Running, config: Config) -> Callable[..., str]:
    def create(name: str, role: Role = "read-only") -> str:
        return Tokens(config.state).create(name, role, NOW)

    return create


@pytest.fixture
def connect(shared: Running) -> Connect:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Streams]:
        context = ssl.create_default_context(cafile=shared.identity.ca)
        reader, writer = await asyncio.open_connection("127.0.0.1", port(shared), ssl=context, limit=1 << 20)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    return opened


def port(server: Running) -> int:
    return int(server.url.rpartition(":")[2])


def head(token: str, path: str, method: str = "GET", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def code(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(30):
        return int((await reader.readline()).split()[1])


async def ask(
    stack: AsyncExitStack, connect: Connect, token: str, path: str, **headers: str
) -> tuple[int, Streams]:
    """Sends a request on a new connection; the status of its answer, whose body nobody reads."""
    reader, writer = await stack.enter_async_context(connect())
    writer.write(head(token, path, **headers))
    answered = await code(reader)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return answered, (reader, writer)


def write(server: Running, name: str, size: int) -> None:
    served = server.parts.registry.find("", "v1", "configmaps")
    assert served
    obj = {"metadata": {"name": name}, "data": {"weight": "x" * size}}
    server.parts.objects.create(Target(served, "default", ""), obj, WriteOptions(), [])


async def test_a_reader_cannot_hold_all_watches(
    shared: Running, connect: Connect, token: Callable[[str], str]
) -> None:
    """One user gets half of what users share, the next a part of the rest, the administrator the reserve."""
    alice, bob = token("alice"), token("bob")
    async with AsyncExitStack() as stack:
        greedy = [(await ask(stack, connect, alice, WATCH))[0] for _ in range(6)]
        assert greedy == [200, 200, 200, 429, 429, 429]
        assert (await ask(stack, connect, bob, WATCH))[0] == 200
        admin = [(await ask(stack, connect, shared.identity.token, WATCH))[0] for _ in range(2)]
        assert admin == [200, 200]
        reader, writer = await stack.enter_async_context(connect())
        writer.write(head(alice, WATCH))
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        assert b"retry-after: 1" in answer
        reader, writer = await stack.enter_async_context(connect())
        writer.write(head(bob, "/metrics", Connection="close"))
        page = (await asyncio.wait_for(reader.read(), 30)).decode()
    assert 'headgate_apiserver_held{what="watches",user="alice"} 3' in page
    assert 'headgate_apiserver_rejected_total{reason="watches"} 4' in page
    assert 'headgate_apiserver_limit{what="watches"} 8' in page
    assert 'headgate_apiserver_limit{what="requests"} 1000' in page
    async with asyncio.timeout(30):
        while shared.parts.shared.watches.by_user():
            await asyncio.sleep(0.01)


async def test_a_reader_cannot_hold_all_connections(
    shared: Running, connect: Connect, token: Callable[[str], str]
) -> None:
    """Connections that have shown a token are shared like watches; one too many gets 429 and is closed."""
    alice, bob = token("alice"), token("bob")
    async with AsyncExitStack() as stack:
        codes = [(await ask(stack, connect, alice, "/api/v1/namespaces"))[0] for _ in range(20)]
        assert codes == [200] * 12 + [429] * 8
        reader, writer = await stack.enter_async_context(connect())
        writer.write(head(alice, "/api/v1/namespaces"))
        refused = await asyncio.wait_for(reader.read(), 30)  # to the end: it is closed
        assert b'user \\"alice\\" holds 12 connections, which is as many as one may' in refused
        assert (await ask(stack, connect, bob, "/api/v1/namespaces"))[0] == 200
        assert (await ask(stack, connect, shared.identity.token, "/api/v1/namespaces"))[0] == 200


async def test_silent_connections_make_room(
    shared: Running, connect: Connect, token: Callable[[str], str]
) -> None:
    """Of connections that say nothing, with or without TLS, the oldest are closed; others are served."""
    alice, silent = token("alice"), []
    async with AsyncExitStack() as stack:
        for number in range(60):
            if number % 2:
                await stack.enter_async_context(connect())
            else:
                _, writer = await asyncio.open_connection("127.0.0.1", port(shared))
                stack.callback(writer.transport.abort)
                silent.append(writer)
        assert (await ask(stack, connect, alice, "/api/v1/namespaces"))[0] == 200
        async with asyncio.timeout(30):
            while shared.door.statistics()["strangers"] > MANY.strangers:
                await asyncio.sleep(0.01)
    assert shared.parts.shared.rejected["strangers"] >= 50


async def test_a_handshake_has_to_end(tmp_path: Path) -> None:
    """A client that connects and does not speak TLS is closed in time."""
    limits = Limits(handshake_s=0.3)
    async with running(Config(tmp_path, port=0, definitions=[], connections=limits)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port(server))
        async with asyncio.timeout(30):
            assert await reader.read() == b""
            while server.door.statistics()["strangers"]:
                await asyncio.sleep(0.01)
        writer.close()
        assert server.parts.shared.rejected == {"handshake": 1}


async def test_lists_that_nobody_reads_are_bounded(
    shared: Running, connect: Connect, token: Callable[[str], str]
) -> None:
    """A reader who asks for long lists and takes none holds a bounded part; others get theirs whole."""
    for number in range(40):
        write(shared, f"n{number:02}", 600_000)
    await shared.parts.store.settled()
    alice, bob = token("alice"), token("bob")
    unread = shared.parts.shared.unread
    async with AsyncExitStack() as stack:
        codes = [(await ask(stack, connect, alice, "/api/v1/configmaps"))[0] for _ in range(10)]
        assert set(codes) == {200, 429}
        assert 0 < unread.by_user()["alice"] <= unread.total // 2
        reader, writer = await stack.enter_async_context(connect())
        writer.write(head(bob, "/api/v1/configmaps", Connection="close"))
        answer = await asyncio.wait_for(reader.read(), 30)
    names = [item["metadata"]["name"] for item in json.loads(_body(answer))["items"]]
    assert names == [f"n{number:02}" for number in range(40)]


def _body(answer: bytes) -> bytes:
    """The body of an answer in chunks."""
    _, _, rest = answer.partition(b"\r\n\r\n")
    body = bytearray()
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size, 16):
            return bytes(body)
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]


@pytest.fixture
def slow(tmp_path: Path) -> Config:
    return Config(
        tmp_path,
        port=0,
        definitions=[],
        watch_events=8,
        unread_bytes=4 << 20,
        connections=Limits(stalled_s=600),
    )


async def test_a_watcher_that_waits_for_room_is_expired(slow: Config) -> None:
    """Watches that are not read hold a bounded number of bytes; one that cannot go on ends with 410."""
    async with running(slow) as server, AsyncExitStack() as stack:
        context = ssl.create_default_context(cafile=server.identity.ca)

        @asynccontextmanager
        async def connect() -> AsyncIterator[Streams]:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port(server), ssl=context, limit=1 << 25
            )
            try:
                yield reader, writer
            finally:
                writer.transport.abort()

        alice = Tokens(slow.state).create("alice", "read-only", NOW)
        streams = [(await ask(stack, connect, alice, WATCH, Connection="close"))[1] for _ in range(20)]
        unread = server.parts.shared.unread
        for number in range(40):
            write(server, f"n{number}", 400_000)
            await server.parts.store.settled()
            await asyncio.sleep(0.01)
            assert unread.held("alice") <= unread.total // 2
        for _, writer in streams:
            writer.transport.resume_reading()  # type: ignore[attr-defined]
        ends = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in streams)), 60)
    assert all(b'"reason":"Expired","code":410' in end[-4096:] for end in ends)


@pytest.fixture
def users(tmp_path: Path) -> Any:
    """Clients of the application for two users who may write, and how many requests may wait."""
    parts = Parts(Config(tmp_path, definitions=[], max_waiting=200))
    transport = httpx2.ASGITransport(application(parts, "admin"))

    def client(name: str) -> httpx2.AsyncClient:
        secret = Tokens(tmp_path).create(name, "admin", NOW)
        headers = {"authorization": f"Bearer {secret}"}
        return httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers)

    yield client
    parts.store.close()


async def test_a_flood_of_writes_does_not_delay_others(users: Any, config_maps: str) -> None:
    """A single write does not wait for the seventy that another user sent before."""
    flooder, other = users("flooder"), users("other")

    async def create(client: httpx2.AsyncClient, name: str) -> int:
        answer = await client.post(config_maps, json={"metadata": {"name": name}})
        assert answer.status_code == 201
        return int(answer.json()["metadata"]["resourceVersion"])

    async with asyncio.TaskGroup() as tasks:
        flood = [tasks.create_task(create(flooder, f"f{number}")) for number in range(70)]
        single = tasks.create_task(create(other, "single"))
    assert sum(each.result() < single.result() for each in flood) < 20


async def test_a_flood_beyond_the_queue_is_told_to_come_again(users: Any, config_maps: str) -> None:
    """Requests that wait are bounded for each user: 429, TooManyRequests and Retry-After beyond that."""
    flooder, other = users("flooder"), users("other")

    async def create(client: httpx2.AsyncClient, name: str) -> httpx2.Response:
        return await client.post(config_maps, json={"metadata": {"name": name}})

    async with asyncio.TaskGroup() as tasks:
        flood = [tasks.create_task(create(flooder, f"f{number}")) for number in range(150)]
        single = tasks.create_task(create(other, "single"))
    refused = [each.result() for each in flood if each.result().status_code != 201]
    assert single.result().status_code == 201
    assert 30 < len(refused) < 80
    assert {(r.status_code, r.json()["reason"], r.headers["retry-after"]) for r in refused} == {
        (429, "TooManyRequests", "1")
    }


async def test_bodies_under_way_are_bounded(
    shared: Running, connect: Connect, token: Callable[..., str], config_maps: str
) -> None:
    """A user whose bodies arrive slowly cannot fill the memory: 429 for the one too many, others write on."""
    alice = token("alice", "admin")
    body = b'{"data": {"text": "' + b"x" * 1_000_000
    async with AsyncExitStack() as stack:
        refused = 0
        for number in range(3):
            reader, writer = await stack.enter_async_context(connect())
            writer.write(head(alice, config_maps, "POST", Content_Length="1100000") + body)
            await writer.drain()
            if number == 2:
                refused = await code(reader)
            else:
                async with asyncio.timeout(30):
                    while shared.parts.shared.bodies.held("alice") < (number + 1) * len(body) // 2:
                        await asyncio.sleep(0.01)
        assert refused == 429
        reader, writer = await stack.enter_async_context(connect())
        writer.write(head(shared.identity.token, config_maps, "POST", Content_Length="2") + b"{}")
        assert await code(reader) in (201, 422)
