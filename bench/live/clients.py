"""Clients that send requests at the times of a trace, whether or not earlier ones got a response."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import httptools

import load

GIVE_UP_S = 60.0


class Asked(Protocol):
    """One request, and its time."""

    @property
    def at_s(self) -> float: ...
    @property
    def headers(self) -> str:
        """Additional header lines, each with its line end."""

    def body(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """The result for one client; times in seconds from sending, None if it never arrived."""

    status: int
    first_token_s: float | None
    total_s: float
    is_whole: bool


class Asking(asyncio.Protocol):
    """One request on its own connection, so that no client waits for another."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.first_token_at: float | None = None
        self.is_whole = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        with contextlib.suppress(httptools.HttpParserError):
            self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        # The first event of a chat stream only has the role: the first token is the first content.
        if self.first_token_at is None and b'"content":"' in body.replace(b'"content":""', b""):
            self.first_token_at = time.perf_counter()

    def on_message_complete(self) -> None:
        self.is_whole = True
        self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def abort(self) -> None:
        self._transport.abort()


async def replay(port: int, requests: Sequence[Asked], give_up_s: float = GIVE_UP_S) -> list[Seen]:
    """Send all requests at their times; returns their results, in order."""
    bodies = [request.body() for request in requests]
    began = time.perf_counter() + 0.5
    asking = []
    for request, body in zip(requests, bodies, strict=True):
        await asyncio.sleep(max(0.0, began + request.at_s - time.perf_counter()))
        asking.append(asyncio.ensure_future(_ask(port, body, request.headers, give_up_s)))
    return await asyncio.gather(*asking)


async def _ask(port: int, body: bytes, headers: str, give_up_s: float) -> Seen:
    head = (
        f"POST {load.CHAT_PATH} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n"
        f"{headers}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    began = time.perf_counter()
    client = Asking(head.encode() + body)
    try:
        async with asyncio.timeout(give_up_s):
            await asyncio.get_running_loop().create_connection(lambda: client, "127.0.0.1", port)
            await client.done
    except TimeoutError:
        client.abort()
    except OSError:
        return Seen(0, None, time.perf_counter() - began, False)
    ended = time.perf_counter()
    first = client.first_token_at
    return Seen(client.status, None if first is None else first - began, ended - began, client.is_whole)
