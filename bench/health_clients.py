"""Clients for the soak of failing engines: the result of each request, through the gateway or directly.

Directly means by an ideal picker that knows which engine fails at each moment. It leaves an engine whose
process ends or is stopped before any part of the response has arrived, and retries as often as the gateway
does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import httptools

from health_rig import ADAPTER, MODEL, Engine

FIRST_BYTE_S = 10.0
"""A client without any part of its response by then gives up."""
WHOLE_S = 60.0
ATTEMPTS = 3
"""Attempts of the ideal picker, as many as the gateway makes."""
ADAPTER_SHARE = 0.2
STREAMED_SHARE = 0.5
PROMPT_WORDS = 40
OUTPUT_TOKENS = (4, 32)


@dataclass(frozen=True)
class Request:
    """One request, sent once by each."""

    number: int
    at_s: float
    model: str
    is_streamed: bool
    body: bytes


def requests(seed: int, per_s: float, seconds: float) -> list[Request]:
    """Requests at random times, `per_s` per second on average."""
    rng = random.Random(seed)
    made: list[Request] = []
    at_s = rng.expovariate(per_s)
    while at_s < seconds:
        model = ADAPTER if rng.random() < ADAPTER_SHARE else MODEL
        is_streamed = rng.random() < STREAMED_SHARE
        asked = {
            "model": model,
            "prompt": " ".join(f"w{rng.randrange(10_000)}" for _ in range(PROMPT_WORDS)),
            "max_tokens": rng.randint(*OUTPUT_TOKENS),
            "stream": is_streamed,
        }
        made.append(Request(len(made), at_s, model, is_streamed, json.dumps(asked).encode()))
        at_s += rng.expovariate(per_s)
    return made


@dataclass(frozen=True)
class Seen:
    """What a client received. `how` is "served", or a few words on what was wrong."""

    request: Request
    how: str
    began_s: float
    ended_s: float

    @property
    def is_served(self) -> bool:
        return self.how == "served"


class Connection(asyncio.Protocol):
    """One request on its own connection."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.body = bytearray()
        self.is_whole = False
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        _set(self.begun)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True
        self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        _set(self.begun)
        _set(self.done)

    def abort(self) -> None:
        self._transport.abort()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _asked(port: int, request: Request, engine: Engine | None = None) -> tuple[str, bool]:
    """How it ended, and whether it may be retried because nothing was passed on."""
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(request.body)}\r\n\r\n"
    )
    client = Connection(head.encode() + request.body)
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(lambda: client, "127.0.0.1", port)
    except OSError:
        return "no connection", True
    turned = asyncio.ensure_future(engine.turned.wait()) if engine is not None else None
    waited = [client.begun, *([turned] if turned is not None else [])]
    try:
        await asyncio.wait(waited, timeout=FIRST_BYTE_S, return_when=asyncio.FIRST_COMPLETED)
        if not client.begun.done():
            client.abort()
            is_told = turned is not None and turned.done()
            return "nothing within 10 s", is_told
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WHOLE_S):
                await client.done
        client.abort()
    finally:
        if turned is not None:
            turned.cancel()
    return judged(client, request), client.status != 200


def judged(client: Connection, request: Request) -> str:
    body = bytes(client.body)
    if client.status == 0:
        return "closed without an answer"
    if client.status != 200:
        return f"{client.status} {_code(body)}".strip()
    if not client.is_whole:
        return "cut off"
    if request.is_streamed:
        if b'"error"' in body:
            return "a stream that ends with an error"
        return "served" if body.rstrip().endswith(b"data: [DONE]") else "cut off"
    return "served" if b'"choices"' in body else "wrong"


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""


async def through_gateway(port: int, request: Request, began: float) -> Seen:
    loop = asyncio.get_running_loop()
    at_s = loop.time() - began
    how, _ = await _asked(port, request)
    return Seen(request, how, at_s, loop.time() - began)


async def told_the_truth(engines: Sequence[Engine], request: Request, began: float) -> Seen:
    """Send the request to the healthy engine with the fewest requests."""
    loop = asyncio.get_running_loop()
    at_s = loop.time() - began
    tried: list[Engine] = []
    how = "no engine is well"
    for _ in range(ATTEMPTS):
        well = [each for each in engines if each not in tried and each.is_well(request.model)]
        if not well:
            break
        engine = min(well, key=lambda each: each.requests)
        tried.append(engine)
        engine.requests += 1
        try:
            how, may_retry = await _asked(engine.port, request, engine)
        finally:
            engine.requests -= 1
        if not may_retry:
            break
    return Seen(request, how, at_s, loop.time() - began)
