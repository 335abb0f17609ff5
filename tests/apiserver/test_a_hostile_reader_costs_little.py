"""What somebody with a reader's token, or with none, can send costs little CPU and memory."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import logging
import ssl
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from headgate import serving
from headgate.apiserver import Config, Running, Tokens, collector, connections, running
from headgate.apiserver.app import application
from headgate.apiserver.handlers import negotiation
from headgate.apiserver.parts import Parts
from headgate.apiserver.targets import Target, WriteOptions

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CONFIG_MAPS = "/api/v1/configmaps"
LITTLE_S = 1.5
"""CPU time far above what an honest request of the same size takes, and far below what these attacks took."""


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with a reader's token, of a server with a hundred objects."""
    parts = Parts(Config(tmp_path, definitions=[]))
    served = parts.registry.find("", "v1", "configmaps")
    assert served
    for number in range(100):
        obj = {"metadata": {"name": f"n{number}", "labels": {"app": "x"}}, "data": {"k": "v"}}
        parts.objects.create(Target(served, "default", ""), obj, WriteOptions(), [])
    await parts.store.settled()
    token = Tokens(tmp_path).create("eve", "read-only", NOW)
    transport = httpx2.ASGITransport(application(parts, "admin"))
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
        yield client
    parts.store.close()


@contextmanager
def little(memory: int = 64 << 20) -> Iterator[None]:
    """Fails if what is done inside costs much CPU time or memory."""
    tracemalloc.start()
    before = time.process_time()
    try:
        yield
        spent, (_, peak) = time.process_time() - before, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert spent < 4 * LITTLE_S  # tracemalloc makes Python several times slower
    assert peak < memory


@pytest.mark.parametrize(
    "selector",
    [
        {"fieldSelector": "metadata.name=" + " " * 16_000 + "\\"},
        {"fieldSelector": " " * 16_000 + "%"},
        {"labelSelector": " " * 16_000 + "%"},
        {"labelSelector": "a" + " " * 16_000 + "%"},
        {"labelSelector": "a in (" + " " * 16_000},
        {"labelSelector": "a > " + "9" * 16_000},
        {"labelSelector": "!a," * 5_000 + "!a"},
        {"fieldSelector": "metadata.name!=a," * 900 + "metadata.name!=a"},
    ],
)
async def test_a_selector_is_read_in_linear_time(
    reader: httpx2.AsyncClient, selector: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Long selectors, and those of many requirements, are refused at once, as bad requests."""
    before = time.process_time()
    answer = await reader.get(CONFIG_MAPS, params=selector)
    assert time.process_time() - before < LITTLE_S
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    assert not caplog.records


async def test_repeated_fields_at_a_long_path_are_told_briefly(reader: httpx2.AsyncClient) -> None:
    """A body of two megabytes cannot make complaints of gigabytes."""
    deep = b'{"' + b"k" * 5_000 + b'":'
    body = deep * 200 + b"{" + b",".join([b'"a":1'] * 160_000) + b"}" + b"}" * 200
    with little(512 << 20):
        answer = await reader.post(REVIEW, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 413, 422)


async def test_a_query_has_few_parameters(reader: httpx2.AsyncClient) -> None:
    """Thousands are a bad request before they are taken apart."""
    answer = await reader.get(f"{CONFIG_MAPS}?{'a=1&' * 12_000}")
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


async def test_long_accept_headers_are_not_remembered(reader: httpx2.AsyncClient) -> None:
    """What is kept of each is short."""
    for number in range(20):
        accept = f"application/json;n={number}" + "," + "x" * 40_000
        assert (await reader.get(f"{CONFIG_MAPS}?limit=1", headers={"accept": accept})).status_code == 200
    kept: list[Any] = []
    for function in (negotiation.check_taken, negotiation.wants_yaml, negotiation.form):
        function.cache_clear()
    with little(2 << 20):
        for number in range(100):
            accept = f"application/json;n={number}" + "," + "x" * 40_000
            kept.append((await reader.get(f"{CONFIG_MAPS}?limit=1", headers={"accept": accept})).status_code)
    assert set(kept) == {200}


@pytest.mark.parametrize(
    "continued", ["%%%", "A" * 60_000, "WzEsIm4iLCJ4Il0", "Wy01LCIiLCIiXQ==", "W1tbW1tbW1tb" * 4_000]
)
async def test_a_forged_continue_token_is_refused(
    reader: httpx2.AsyncClient, continued: str, caplog: pytest.LogCaptureFixture
) -> None:
    """400 for what is none, 410 for a moment that is too far back."""
    answer = await reader.get(CONFIG_MAPS, params={"continue": continued, "limit": "1"})
    assert answer.status_code in (400, 410)
    assert not caplog.records


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Running]:
    limits = connections.Limits(stalled_s=600)
    async with running(Config(tmp_path / "live", port=0, definitions=[], connections=limits)) as server:
        yield server


async def connect(server: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cafile=server.identity.ca)
    port = int(server.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1 << 20)


async def test_requests_ahead_of_their_answers_are_few(
    live: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Who sends thousands of requests without waiting for answers is let go; a few are answered in order."""
    token = live.identity.token.encode()
    one = b"GET /api/v1/namespaces HTTP/1.1\r\nAuthorization: Bearer " + token + b"\r\n\r\n"
    reader, writer = await connect(live)
    writer.write(one * 5)
    for _ in range(5):
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 30)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
    answered = b""
    with caplog.at_level(logging.WARNING), contextlib.suppress(ConnectionResetError):
        writer.write(b"GET /readyz HTTP/1.1\r\n\r\n" * 5_000)
        while part := await asyncio.wait_for(reader.read(1 << 16), 30):
            answered += part
    writer.close()
    assert answered.count(b"HTTP/1.1 ") <= serving.MAX_PIPELINED + 2
    assert live.parts.shared.rejected["too_many_pipelined"] == 1
    assert not caplog.records


async def test_nonsense_is_not_logged(live: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Anybody can send it, and a log that grows with it fills the disk."""
    with caplog.at_level(logging.WARNING):
        for nonsense in (
            b"nonsense\r\n\r\n",
            b"GET /readyz HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        ):
            reader, writer = await connect(live)
            writer.write(nonsense)
            assert b"HTTP/1.1 " in await asyncio.wait_for(reader.readline(), 30)
            writer.close()
    assert not caplog.records


async def test_log_streams_are_shared(live: Running, tmp_path: Path) -> None:
    """A log is a connection to a node for as long as its reader likes: 429 beyond a user's share."""
    shared = live.parts.shared
    while shared.logs.take("eve"):
        pass
    token = Tokens(tmp_path / "live").create("eve", "read-only", NOW)
    served = live.parts.registry.find("", "v1", "pods")
    assert served
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    live.parts.objects.create(Target(served, "default", ""), pod, WriteOptions(), [])
    reader, writer = await connect(live)
    writer.write(
        b"GET /api/v1/namespaces/default/pods/p/log HTTP/1.1\r\nAuthorization: Bearer "
        + token.encode()
        + b"\r\n\r\n"
    )
    assert b" 429 " in await asyncio.wait_for(reader.readline(), 30)
    writer.close()


async def test_a_patch_that_retains_keys_is_linear(tmp_path: Path) -> None:
    """$retainKeys of tens of thousands of names is looked up, not searched."""
    from headgate.apiserver import patch

    names = [f"k{number}" for number in range(40_000)]
    before = time.process_time()
    made = patch.strategic_merge_patch(
        dict.fromkeys(names, "v"), {"$retainKeys": [f"x{name}" for name in names] + [{}]}, {}
    )
    assert made == {}
    assert time.process_time() - before < LITTLE_S


async def test_others_are_served_while_a_collection_is_deleted(
    http: httpx2.AsyncClient, config_maps: str
) -> None:
    """A collection is deleted a few objects at a time, and all of it is."""
    for number in range(300):
        await http.post(config_maps, json={"metadata": {"name": f"n{number:03}"}})
    order = []

    async def delete() -> None:
        answer = await http.delete(config_maps)
        assert len(answer.json()["items"]) == 300
        order.append("deleted")

    async def ask() -> None:
        await http.get(f"{config_maps}/nobody")
        order.append("asked")

    await asyncio.gather(delete(), ask())
    assert order == ["asked", "deleted"]
    assert (await http.get(config_maps)).json()["items"] == []


async def test_others_are_served_while_a_namespace_is_emptied(live: Running) -> None:
    """The content of a namespace goes a few objects at a time."""
    objects, store = live.parts.objects, live.parts.store

    def target(plural: str, namespace: str, name: str = "") -> Target:
        served = live.parts.registry.find("", "v1", plural)
        assert served
        return Target(served, namespace, name)

    objects.create(target("namespaces", ""), {"metadata": {"name": "full"}}, WriteOptions(), [])
    for number in range(1000):
        objects.create(target("configmaps", "full"), {"metadata": {"name": f"n{number}"}}, WriteOptions(), [])
    await store.settled()
    objects.delete(target("namespaces", "", "full"), msgspec.convert({}, objects_options()))
    left = [1000]
    async with asyncio.timeout(60):
        while store.get(target("namespaces", "", "full").key):
            await asyncio.sleep(0)
            left.append(store.count_of("configmaps"))
    assert left[-1] == 0
    assert max(before - after for before, after in itertools.pairwise(left)) <= 2 * collector.AT_ONCE


def objects_options() -> Any:
    from headgate.apiserver.deletion import DeleteOptions

    return DeleteOptions
