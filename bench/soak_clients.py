"""Clients of the soak: each request has a unique name, and its response is checked byte by byte."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

import httptools

import soak_engines

MODEL = "soak"
PATIENCE_S = 60.0
"""Far above any expected duration: a response that has not arrived by then is missing."""
SLOW_PAUSE_S = 0.2
SLOW_RECEIVES_BYTES = 8192
"""Small enough that the gateway has to buffer a slow client's response."""
KINDS = ("plain",) * 6 + ("stream",) * 6 + ("slow", "leaver")


@dataclass(frozen=True, slots=True)
class Result:
    """What a client saw of one request.

    `how` is "served", "refused" (a complete error), "told" (a stream that ended with an error), "cut" (no
    end, or nothing at all), "left" (the client disconnected), or one of the two that must not occur: "wrong"
    (a complete but incorrect response) and "missing" (nothing for a minute).
    """

    name: str
    how: str
    status: int
    began: float
    ended: float
    detail: str = ""

    @property
    def took_s(self) -> float:
        return self.ended - self.began


class Connection(asyncio.Protocol):
    """One keep-alive connection to the gateway, one request at a time."""

    def __init__(self) -> None:
        self.is_usable = True
        self.is_slow = False
        self._pauses = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def ask(self, request: bytes, pauses: int = 0) -> None:
        """Send a request and wait for the end of its response. Slow clients pause reading `pauses` times."""
        self.status = 0
        self.body = bytearray()
        self.is_complete = False
        self._pauses = pauses
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        if not self.is_usable:
            return
        self._transport.write(request)
        async with asyncio.timeout(PATIENCE_S):
            await self._done

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()
        if self._pauses and self.is_usable and not self.is_complete:
            self._pauses -= 1
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(SLOW_PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        if self.is_usable:
            self._transport.resume_reading()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_message_complete(self) -> None:
        self.is_complete = True
        self.is_usable = self.is_usable and self._parser.should_keep_alive()
        if not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_usable = False
        if hasattr(self, "_done") and not self._done.done():
            self._done.set_result(None)

    def close(self) -> None:
        self.is_usable = False
        self._transport.abort()


@dataclass
class Clients:
    """All clients. Requests are sent at a fixed rate, whether or not earlier ones got a response."""

    port: int
    rng: random.Random
    results: list[Result] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    not_asked: int = 0
    """Requests skipped because too many were unanswered."""
    _free: list[Connection] = field(default_factory=list)
    _running: set[asyncio.Task[None]] = field(default_factory=set)
    _number: int = 0

    async def at_rate(self, per_s: float, seconds: float, *, most: int = 1000) -> None:
        """Send requests for a while; with more than `most` unanswered ones, skip and count them."""
        began = time.monotonic()
        due = 0
        while (now := time.monotonic()) < began + seconds:
            while due < (now - began) * per_s:
                due += 1
                if len(self._running) < most:
                    self._start(self._one(self.rng.choice(KINDS)))
                else:
                    self.not_asked += 1
            await asyncio.sleep(0.01)

    async def capacity_per_s(self, seconds: float, clients: int = 200) -> float:
        """Responses per second if `clients` clients send their next request after each response."""
        end = time.monotonic() + seconds
        answered = 0

        async def ask_again() -> None:
            nonlocal answered
            while time.monotonic() < end:
                await self._one(self.rng.choice(KINDS[:-1]), calm=True)
                answered += 1

        await asyncio.gather(*(ask_again() for _ in range(clients)))
        return answered / seconds

    async def end(self) -> None:
        """Wait for outstanding responses, and disconnect."""
        while self._running:
            await asyncio.wait(self._running)
        for connection in self._free:
            connection.close()
        self._free.clear()

    def told(self) -> str:
        """How the requests ended, as text."""
        return ", ".join(f"{how} {count:,}" for how, count in self.counts.most_common())

    @property
    def running(self) -> int:
        return len(self._running)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _one(self, kind: str, *, calm: bool = False) -> None:
        self._number += 1
        name = f"soak-{self._number}"
        asked = {"model": MODEL, "prompt": name, "stream": kind in ("stream", "leaver")}
        if calm:
            asked["calm"] = True
        if kind == "slow":
            asked["big"] = True
        began = time.monotonic()
        how, status, detail = await self._judged(kind, name, asked, calm)
        self.counts[how] += 1
        self.results.append(Result(name, how, status, began, time.monotonic(), detail))

    async def _judged(
        self, kind: str, name: str, asked: dict[str, object], calm: bool
    ) -> tuple[str, int, str]:
        try:
            connection = await self._connection(is_slow=kind == "slow" and not calm)
        except OSError as error:
            return "missing", 0, f"cannot connect: {error}"
        body = json.dumps(asked).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nhost: soak\r\nx-request-id: {name}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        pauses = 3 if connection.is_slow else 0
        asking = asyncio.ensure_future(connection.ask(head.encode() + body, pauses))
        if kind == "leaver":
            await asyncio.wait([asking], timeout=self.rng.random() * 0.06)
            if not asking.done():
                connection.close()
                await asking
                return "left", 0, ""
        try:
            await asking
        except TimeoutError:
            connection.close()
            return "missing", connection.status, f"nothing for {PATIENCE_S:g} s"
        how, detail = judge(connection, asked)
        if how == "told":
            connection.close()  # the gateway does, too
        elif connection.is_slow:
            connection.close()
        elif connection.is_usable:
            self._free.append(connection)
        return how, connection.status, detail

    async def _connection(self, *, is_slow: bool) -> Connection:
        while self._free and not is_slow:
            connection = self._free.pop()
            if connection.is_usable:
                return connection
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        sock.setblocking(False)
        if is_slow:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_RECEIVES_BYTES)
        try:
            await loop.sock_connect(sock, ("127.0.0.1", self.port))
        except OSError:
            sock.close()
            raise
        _, made = await loop.create_connection(Connection, sock=sock)
        made.is_slow = is_slow
        return made


def judge(connection: Connection, asked: dict[str, object]) -> tuple[str, str]:
    """How it ended, and what is wrong with it."""
    body = bytes(connection.body)
    if not connection.is_complete:
        return "cut", f"status {connection.status}, {len(body)} bytes"
    if connection.status != 200:
        is_told = b'"error"' in body
        return ("refused", "") if is_told else ("wrong", f"status {connection.status}: {body[:200]!r}")
    right = soak_engines.right_answer(asked).body
    if body == right:
        return "served", ""
    *whole, last, rest = body.split(b"\n\n") if asked["stream"] else (b"", b"", b"")
    is_prefix = right.startswith(b"".join(event + b"\n\n" for event in whole))
    if asked["stream"] and rest == b"" and is_prefix and b'"error"' in last:
        return "told", ""
    return "wrong", f"{len(body)} bytes instead of {len(right)}: {body[:200]!r}"
