"""Attacks by engines that an attacker adds: their background responses, without any client requests.

Sixteen of them join a pool when an attack begins, and leave when it ends: the gateway reads their metrics
pages, model lists, KV events and tokens on its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import kube
from attack import manifests
from attack.by_clients import head
from attack.engines import OK, WELL, Http1
from attack.target import Outcomes, Target, Wire, outcome, rest

MODEL = "brought"
ENGINES = 16
_MEGABYTE = 1 << 20
_PATIENCE_S = 20.0


def pages_of_many_lines() -> bytes:
    """A page of 37,000 lines, all of one metric family that the gateway reads."""
    line = b'vllm:num_requests_waiting{model_name="m",engine="%05d",more="0123456789012345678901234567"} 1\n'
    return b"# TYPE vllm:num_requests_waiting gauge\n" + b"".join(line % number for number in range(37_000))


def lists_of_empty_lists() -> bytes:
    """A list of one model, containing a million empty lists."""
    return b'{"object":"list","data":[{"id":"brought","parent":[%b[]]}]}' % (b"[]," * 1_000_000)


def lists_of_many_models() -> bytes:
    """As many models as fit."""
    models = b",".join(b'{"id":"m%06d"}' % number for number in range(220_000))
    return b'{"object":"list","data":[%b]}' % models


def tokens_without_number() -> bytes:
    """Two million tokens for any prompt."""
    return b'{"count":1,"max_model_len":1000,"tokens":[%b1]}' % (b"1," * 2_000_000)


def answering(path: bytes, make: Callable[[], bytes]) -> tuple[Callable[[], bytes], Callable[[Target], Any]]:
    """The function that creates the body with which each engine responds to `path`, and the attack."""
    made = functools.cache(make)

    async def run(target: Target) -> Outcomes:
        body = made()
        found: Outcomes = Counter()

        def answer(request: bytes) -> bytes:
            if path not in request.partition(b"\r\n")[0]:
                return WELL
            found["sent"] += 1
            return OK + b"content-length: %d\r\n\r\n" % len(body) + body

        async with _brought(target, answer):
            await rest(target)
        return found

    return made, run


async def tokens(target: Target) -> Outcomes:
    """Engines that publish KV events are asked for the tokens of prompts, and return two million."""
    body = huge_answer_of_tokens()
    found: Outcomes = Counter()

    def answer(request: bytes) -> bytes:
        if not request.startswith(b"POST /tokenize"):
            return WELL
        found["told tokens"] += 1
        return OK + b"content-length: %d\r\n\r\n" % len(body) + body

    def one_batch(number: int) -> Iterator[bytes]:
        yield _message(0, _stored(number, 0, 8))

    async with _brought(target, answer, one_batch):
        found += await _prompts(target)
    return found


huge_answer_of_tokens = functools.cache(tokens_without_number)


async def _prompts(target: Target) -> Outcomes:
    """Send new prompts to the model of the attacker's engines."""
    found: Outcomes = Counter()
    for number in itertools.count():
        if target.is_over:
            return found
        prompt = f"{number} " * 1000
        body = json.dumps({"model": MODEL, "prompt": prompt, "max_tokens": 1}).encode()

        async def attempt(body: bytes = body) -> str:
            wire = await Wire.open(target.port)
            try:
                await wire.send(head(len(body), b"/v1/completions"), body)
                return await wire.status(timeout_s=5)
            finally:
                wire.reset()

        found[await outcome(attempt())] += 1
        await asyncio.sleep(0.02)
    return found


async def publishers(target: Target) -> Outcomes:
    """Sixteen engines report new blocks endlessly, 65,000 per message, and clear their caches in time."""
    found: Outcomes = Counter()

    def endless(engine: int) -> Iterator[bytes]:
        numbers = itertools.count()
        while True:
            for part in range(7):
                yield _message(next(numbers), _stored(engine, part, 65_000))
                found["batches"] += 1
            yield _message(next(numbers), ["AllBlocksCleared"])

    async with _brought(target, lambda _: WELL, endless):
        await rest(target)
    return found


async def a_cleared_cache(target: Target) -> Outcomes:
    """One of two ranks reports 480,000 blocks, and then an empty cache."""
    found: Outcomes = Counter()

    def many(engine: int) -> Iterator[bytes]:
        for number in range(8):
            yield _message(number, _stored(engine, number, 60_000))
            found["batches"] += 1
        yield _message(8, ["AllBlocksCleared"])
        found["cleared"] += 1

    def few(engine: int) -> Iterator[bytes]:
        yield _message(0, _stored(engine, 99, 8))

    async with _brought(target, lambda _: WELL, many, few, engines=1):
        await rest(target)
    return found


_BLOCK_TOKENS = 16


def _stored(engine: int, part: int, blocks: int) -> list[Any]:
    """An event with blocks that no other engine has reported."""
    first = (engine << 32) | (part << 20)
    tokens = array("B", bytes(blocks * _BLOCK_TOKENS)).tolist()
    tokens[:2] = [engine, part]
    return ["BlockStored", list(range(first, first + blocks)), None, tokens, _BLOCK_TOKENS]


def _message(number: int, *events: Any) -> bytes:
    payload = msgspec.msgpack.encode([0.0, events, 0])
    parts = ((_MORE, b"kv"), (_MORE, number.to_bytes(8, "big")), (0, payload))
    return b"".join(_zmtp(flags, part) for flags, part in parts)


_MORE, _LONG, _COMMAND = 1, 2, 4
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
_READY = b"\5READY\x0bSocket-Type\0\0\0\3PUB"

_Messages = Callable[[int], Iterator[bytes]]
"""The messages that an engine publishes, by its number."""


def _zmtp(flags: int, payload: bytes) -> bytes:
    return bytes([flags | _LONG]) + len(payload).to_bytes(8, "big") + payload


async def _publish(
    messages: _Messages, engine: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Publish to one subscriber, as fast as it reads."""
    with contextlib.suppress(OSError, asyncio.CancelledError):
        writer.write(_GREETING + _zmtp(_COMMAND, _READY))
        await reader.readexactly(len(_GREETING))
        for message in messages(engine):
            writer.write(message)
            await writer.drain()
        while await reader.read(_MEGABYTE):
            pass
    writer.transport.abort()


class _Answering(Http1):
    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._told = answer

    def answer(self, request: bytes) -> None:
        self._transport.write(self._told(request))


@contextlib.asynccontextmanager
async def _brought(
    target: Target, answer: Callable[[bytes], bytes], *ranks: _Messages, engines: int = ENGINES
) -> AsyncIterator[None]:
    """Engines of a pool with a route, added for the duration of the context.

    `answer` returns an engine's response to a request; `ranks` are the messages that each rank publishes.
    """
    loop = asyncio.get_running_loop()
    connection = await kube.Cluster.load(Path(target.admin_kubeconfig)).connect()
    servers: list[asyncio.AbstractServer] = []
    paths: list[str] = []

    async def create(kind: str, document: dict[str, Any]) -> None:
        answer = await connection.request("POST", kind, json.dumps(document).encode())
        if answer.status == 201:
            paths.append(f"{kind}/{document['metadata']['name']}")

    try:
        for number in range(engines):
            server = await loop.create_server(lambda: _Answering(answer), "127.0.0.1", 0)
            servers.append(server)
            pod = manifests.pod(f"{MODEL}-{number}", server.sockets[0].getsockname()[1], MODEL)
            if ranks:
                published, port = await _publishing(number, ranks)
                servers += published
                pod["metadata"]["annotations"] |= {
                    "headgate.dev/kv-events": f"tcp://*:{port}",
                    "headgate.dev/kv-events-ranks": str(len(ranks)),
                }
            await create(manifests.PODS, pod)
            status = json.dumps({"status": manifests.RUNNING}).encode()
            name = pod["metadata"]["name"]
            await connection.request("PATCH", f"{manifests.PODS}/{name}/status", status, manifests.MERGE)
        await create(manifests.SERVERS, manifests.server(MODEL, 1))
        await create(manifests.ROUTES, manifests.route(MODEL, MODEL))
        yield
    finally:
        for path in reversed(paths):
            grace = b'{"gracePeriodSeconds":0}'
            await connection.request("DELETE", path, grace)
        connection.close()
        for server in servers:
            server.close()


async def _publishing(engine: int, ranks: tuple[_Messages, ...]) -> tuple[list[asyncio.Server], int]:
    """A server for each rank, on consecutive ports, and the first port."""
    for _ in range(100):
        servers: list[asyncio.Server] = []
        try:
            for number, messages in enumerate(ranks):
                port = servers[0].sockets[0].getsockname()[1] + number if servers else 0
                publish = functools.partial(_publish, messages, engine)
                servers.append(await asyncio.start_server(publish, "127.0.0.1", port))
        except OSError:
            for server in servers:
                server.close()
        else:
            return servers, servers[0].sockets[0].getsockname()[1]
    raise RuntimeError("no ports that follow one another are free")
