"""Attacks by clients of the inference API: unfinished, huge, malformed or idle requests."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import kube
from attack import manifests
from attack.target import Outcomes, Target, Wire, outcome, repeat, rest, sending

MEGABYTE = 1_000_000
MODEL = b"attacked"
PATH = b"/v1/chat/completions"


def head(length: int, path: bytes = PATH, media_type: bytes = b"application/json") -> bytes:
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (
        path,
        media_type,
        length,
    )


async def aborted_uploads(target: Target) -> Outcomes:
    """Announce 8 MB, send one, and reset the connection."""
    megabyte = b'{"model":"' + MODEL + b'","prompt":"' + b"x" * MEGABYTE

    async def attempt() -> str:
        wire = await Wire.open(target.port)
        try:
            await wire.send(head(8 * MEGABYTE), megabyte)
        finally:
            wire.reset()
        return "sent"

    return await repeat(target, 4, attempt)


@functools.cache
def most_of_a_body() -> bytes:
    return b'{"model":"' + MODEL + b'","prompt":"' + b"x" * 31 * MEGABYTE


async def unfinished_bodies(target: Target) -> Outcomes:
    """Sixty clients send 31 MB each except for the last byte, and keep the connection open."""
    body = most_of_a_body()
    pieces = _pieces(body)

    async def attempt() -> str:
        wire = await Wire.open(target.port)
        try:
            answered = asyncio.ensure_future(wire.status(timeout_s=3600))
            sending = asyncio.ensure_future(wire.send(head(len(body) + 1), *pieces))
            await asyncio.wait((answered, sending), return_when=asyncio.FIRST_COMPLETED)
            held = asyncio.ensure_future(rest(target))
            await asyncio.wait((answered, held), return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return answered.result()
            return "held"
        finally:
            for task in (answered, sending, held):
                task.cancel()
            wire.reset()

    outcomes: Outcomes = Counter(await asyncio.gather(*(outcome(attempt()) for _ in range(60))))
    return outcomes


def _pieces(body: bytes) -> list[bytes]:
    return [body[at : at + MEGABYTE] for at in range(0, len(body), MEGABYTE)]


def _document(middle: bytes) -> bytes:
    """A body of about 30 MB: `middle` as an unused member, before the members that a gateway must find."""
    return b'{"extra":%b,"model":"%b","prompt":"hello"}' % (middle, MODEL)


def _repeated(piece: bytes) -> bytes:
    return piece * (30 * MEGABYTE // len(piece))


_SHAPES: dict[str, Callable[[], bytes]] = {
    "numbers": lambda: _document(b"[" + _repeated(b"1,") + b"1]"),
    "empty lists": lambda: _document(b"[" + _repeated(b"[],") + b"[]]"),
    "deep nesting": lambda: _document(b"[" * 15 * MEGABYTE + b"]" * 15 * MEGABYTE),
    "one long string": lambda: _document(b'"' + b"x" * 30 * MEGABYTE + b'"'),
    "escapes": lambda: _document(b'"' + _repeated(rb"\u0041\"") + b'"'),
    "duplicate keys": lambda: b"{" + _repeated(b'"model":"%b",' % MODEL) + b'"prompt":"hello"}',
    "many members": lambda: (
        b"{%b" % b"".join(b'"k%d":%d,' % (number, number) for number in range(30 * MEGABYTE // 18))
        + b'"model":"%b","prompt":"hello"}' % MODEL
    ),
    "many messages": lambda: (
        b'{"model":"%b","messages":[%b{"role":"user","content":"x"}]}'
        % (MODEL, _repeated(b'{"role":"user","content":"x"},'))
    ),
    "a long prompt": lambda: b'{"model":"%b","prompt":"%b"}' % (MODEL, b"x" * 30 * MEGABYTE),
    "token ids": lambda: b'{"model":"%b","prompt":[%b1]}' % (MODEL, _repeated(b"15339,")),
}
SHAPES = {name: functools.cache(make) for name, make in _SHAPES.items()}


def large_body(make: Callable[[], bytes], clients: int = 1) -> Callable[[Target], object]:
    """Each client sends valid bodies of 30 MB, one after the other."""

    async def send(target: Target) -> Outcomes:
        body = make()

        async def attempt() -> str:
            wire = await Wire.open(target.port)
            try:
                async with sending(wire, head(len(body)), *_pieces(body)):
                    return await wire.status()
            finally:
                wire.reset()

        return await repeat(target, clients, attempt)

    return send


async def odd_texts(target: Target) -> Outcomes:
    """Lone surrogates, JSON inside names, control characters: text that may end up in logs and JSON."""
    names = [rb"\ud800", rb"{\"a\":1}", rb"\u0000\u000a", rb"\\\"", "é".encode(), b"n" * 4000]
    bodies = [
        b'{"model":"%b","messages":[{"role":"user","content":"%b"}],"user":"%b"}' % (model, text, text)
        for model in (MODEL, *names)
        for text in names
    ]
    turn = itertools.cycle(bodies)

    async def attempt() -> str:
        wire = await Wire.open(target.port)
        try:
            body = next(turn)
            await wire.send(head(len(body)), body)
            return await wire.status()
        finally:
            wire.reset()

    return await repeat(target, 4, attempt)


async def odd_forms(target: Target) -> Outcomes:
    """Forms with thousands of parts, and with names that two servers could read differently."""
    part = b'--b\r\ncontent-disposition: form-data; name="p%d"\r\n\r\nx\r\n'
    parts = b"".join(part % number for number in range(20_000))
    starred = (
        b"--b\r\ncontent-disposition: form-data; name*=utf-8''model; name=\"model\"\r\n\r\n%b\r\n" % MODEL
    )
    end = b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\n%b\r\n--b--\r\n' % MODEL
    turn = itertools.cycle((parts + end, starred + end, end * 2, parts))

    async def attempt() -> str:
        wire = await Wire.open(target.port)
        try:
            body = next(turn)
            await wire.send(
                head(len(body), b"/v1/audio/transcriptions", b"multipart/form-data; boundary=b"), body
            )
            return await wire.status()
        finally:
            wire.reset()

    return await repeat(target, 2, attempt)


_CHUNKED = (
    b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
)


async def tiny_chunks(target: Target) -> Outcomes:
    """Bodies of 200 KB in one-byte chunks."""
    body = b'{"model":"%b","prompt":"%b"}' % (MODEL, b"x" * 200_000)
    request = _CHUNKED % PATH + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    return await _each_answered(target, 4, request)


async def endless_trailers(target: Target) -> Outcomes:
    """A body followed by a megabyte of trailers."""
    body = b'{"model":"%b","prompt":"x"}' % MODEL
    request = _CHUNKED % PATH + b"%x\r\n%b\r\n0\r\n" % (len(body), body) + b"x-more: 1234\r\n" * 70_000
    return await _each_answered(target, 4, request)


async def pipelined(target: Target) -> Outcomes:
    """Two thousand pipelined requests for a path that does not exist, on each connection."""
    requests = b"GET /none HTTP/1.1\r\nhost: x\r\n\r\n" * _PIPELINED
    return await _each_answered(target, 4, requests, _PIPELINED)


_PIPELINED = 2000


AHEAD = b"GET /none HTTP/1.1\r\nhost: x\r\n\r\n"
TINY_CHUNK = b"1\r\nx\r\n"
_BURST_BYTES, _PAUSE_S = 4000, 0.2


def bursts(connections: int, piece: bytes, opening: bytes = b"") -> Callable[[Target], object]:
    """Many connections send 4 KB of `piece` each, all at once, five times per second."""

    async def send(target: Target) -> Outcomes:
        loop = asyncio.get_running_loop()
        opened = (
            loop.create_connection(asyncio.Protocol, "127.0.0.1", target.port) for _ in range(connections)
        )
        transports = [transport for transport, _ in await asyncio.gather(*opened)]
        for transport in transports:
            transport.write(opening)
        outcomes: Outcomes = Counter()
        while not target.is_over:
            await asyncio.sleep(_PAUSE_S)
            for transport in transports:
                transport.write(piece * (_BURST_BYTES // len(piece)))
            outcomes["bursts"] += sum(not transport.is_closing() for transport in transports)
        for transport in transports:
            transport.abort()
        return outcomes

    return send


tiny_chunks_in_bursts = bursts(300, TINY_CHUNK, _CHUNKED % PATH)
requests_in_bursts = bursts(200, AHEAD)


async def requests_behind_bodies(target: Target) -> Outcomes:
    """The end of a body whose model does not exist, directly followed by 250 KB of requests."""
    body = b'{"model":"none","prompt":"%b"}' % (b"x" * 70_000)

    async def attempt() -> str:
        wire = await Wire.open(target.port)
        try:
            await wire.send(head(len(body)), body[:-1])
            await asyncio.sleep(0.05)
            async with sending(wire, body[-1:] + AHEAD * (250_000 // len(AHEAD))):
                return await wire.status(timeout_s=10)
        finally:
            wire.reset()

    return await repeat(target, 4, attempt)


async def _each_answered(target: Target, clients: int, request: bytes, responses: int = 1) -> Outcomes:
    """Send a request repeatedly, on a new connection each time, and wait for `responses` responses."""

    async def attempt() -> str:
        wire = await Wire.open(target.port)
        try:
            async with sending(wire, request):
                status = await wire.status(timeout_s=10)
                for _ in range(responses - 1):
                    await asyncio.wait_for(wire.reader.readuntil(b"\r\n\r\n"), 10)
                return status
        finally:
            wire.reset()

    return await repeat(target, clients, attempt)


QUEUED = 4000


async def requests_of_a_deleted_pool(target: Target) -> Outcomes:
    """Four thousand requests are queued for a pool without endpoints, which is then deleted."""
    cluster = kube.Cluster.load(Path(target.admin_kubeconfig))
    connection = await cluster.connect()
    name = "deleted"
    server, route = manifests.server(name, 1), manifests.route(name, name)
    body = b'{"model":"deleted","prompt":"x"}'
    request = head(len(body)) + body
    outcomes: Outcomes = Counter()
    for kind, document in ((manifests.SERVERS, server), (manifests.ROUTES, route)):
        await connection.request("POST", kind, json.dumps(document).encode())
    wires: list[Wire] = []

    async def wait() -> None:
        wire = await Wire.open(target.port)
        wires.append(wire)
        await wire.send(request)

    turns = iter(range(QUEUED))

    async def some() -> None:
        for _ in turns:
            await outcome(_done(wait()))

    try:
        await asyncio.gather(*(some() for _ in range(50)))
        for kind in (manifests.SERVERS, manifests.ROUTES):
            await connection.request("DELETE", f"{kind}/{name}")
        for wire in wires:
            outcomes[await outcome(wire.status(timeout_s=15))] += 1
        await rest(target)
    finally:
        connection.close()
        for wire in wires:
            wire.reset()
    return outcomes


async def _done(work: Awaitable[None]) -> str:
    await work
    return "done"


async def slow_heads(target: Target) -> Outcomes:
    """A thousand connections, each sending one byte of its head per second."""
    return await slowly(target, target.port, 1000, b"POST / HTTP/1.1\r\nhost: x\r\nx-slow: " + b"x" * 100)


async def idle_on_own_ports(target: Target) -> Outcomes:
    """A thousand connections to the metrics and admin ports that send nothing, or one byte per second."""
    found = await asyncio.gather(
        slowly(target, target.metrics_port, 250, b""),
        slowly(target, target.admin_port, 250, b""),
        slowly(target, target.metrics_port, 250, b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 100),
        slowly(target, target.admin_port, 250, b"GET /readyz HTTP/1.1\r\nx: " + b"y" * 100),
    )
    return sum(found, Counter())


async def slowly(
    target: Target, port: int, connections: int, text: bytes, tls: ssl.SSLContext | None = None
) -> Outcomes:
    """Open `connections` connections that each send one byte of `text` per second."""

    async def attempt() -> str:
        wire = await Wire.open(port, tls)
        try:
            for at in itertools.count():
                if target.is_over:
                    return "held"
                if text[at : at + 1]:
                    await wire.send(text[at : at + 1])
                done = asyncio.ensure_future(wire.reader.read(1))
                ended, _ = await asyncio.wait((done,), timeout=1.0)
                if ended:
                    return "closed" if not done.result() else "answered"
                done.cancel()
                await asyncio.gather(done, return_exceptions=True)
        finally:
            wire.reset()
        return "held"

    return Counter(await asyncio.gather(*(outcome(attempt()) for _ in range(connections))))
