"""Clients that send requests at a given rate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from traffic import MODEL

BODY: Final[Mapping[str, Any]] = {
    "model": MODEL,
    "max_tokens": 4,
    "messages": [{"role": "user", "content": "Hello"}],
}


def _request(body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json"
    return f"{head}\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text


class Load:
    """Clients that send a number of requests a second, whatever becomes of them, until the block ends.

    Each takes an idle connection, or opens one to any of the current addresses, as the proxy of a Service
    would. A request on an idle connection that turns out to be closed is sent once more on another one, as
    HTTP clients do.
    """

    def __init__(
        self, addresses: Callable[[], Sequence[str]], rate: float, body: Mapping[str, Any] = BODY
    ) -> None:
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []
        """Of requests that got no response."""
        self._addresses = addresses
        self._rate = rate
        self._request_bytes = _request(body)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns once all requests are over."""
        self._is_over.set()
        self._thread.join()

    @property
    def requests(self) -> int:
        """How many are over."""
        return self.statuses.total() + len(self.failures)

    async def _run(self) -> None:
        began, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not self._is_over.is_set():
                while sent < (time.monotonic() - began) * self._rate:
                    sent += 1
                    group.create_task(self._request())
                await asyncio.sleep(0.005)
        for _, writer in self._idle:
            writer.close()

    async def _request(self) -> None:
        try:
            async with asyncio.timeout(60):
                if self._idle:
                    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                        self.statuses[await self._exchange(*self._idle.pop())] += 1
                        return
                host, port = random.choice(self._addresses()).rsplit(":", 1)
                self.statuses[await self._exchange(*await asyncio.open_connection(host, int(port)))] += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError, IndexError) as error:
            self.failures.append(repr(error))

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        """Sends a request and reads the response. IncompleteReadError if the connection ends before it."""
        is_kept = False
        try:
            writer.write(self._request_bytes)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            [length] = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(length)
            is_kept = b"\r\nconnection: close\r\n" not in head
        finally:
            if is_kept:
                self._idle.append((reader, writer))
            else:
                writer.close()
        return int(head[9:12])
