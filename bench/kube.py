"""A Kubernetes API client for measurements: keep-alive over TLS, with little CPU time of its own.

General-purpose clients cost more per request than the server, so that they would measure themselves.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import yaml


@dataclass(frozen=True)
class Cluster:
    """The address and credentials of a server."""

    host: str
    port: int
    context: ssl.SSLContext | None
    """None for plain HTTP."""
    token: str

    @classmethod
    def load(cls, kubeconfig: Path) -> Cluster:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        url = urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        assert url.hostname
        assert url.port
        return cls(url.hostname, url.port, context, config["users"][0]["user"]["token"])

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(self), self.host, self.port, ssl=self.context
        )
        return cast(Connection, connection)


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    first_byte_s: float
    """Seconds from sending the request to the first bytes of the response."""
    total_s: float


class Connection(asyncio.Protocol):
    """One keep-alive connection: one request at a time, or one watch to the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._head = (
            f"Host: {cluster.host}:{cluster.port}\r\nAuthorization: Bearer {cluster.token}\r\n"
            "User-Agent: bench/1\r\nAccept: application/json\r\n"
        )
        self._body: list[bytes] = []
        self._waiting: asyncio.Future[Answer] | None = None
        self._on_body: Callable[[bytes], None] = self._body.append

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting and not self._waiting.done():
            self._waiting.set_exception(error or ConnectionResetError("the server closed the connection"))

    async def request(
        self, method: str, path: str, body: bytes = b"", media_type: str = "application/json"
    ) -> Answer:
        self._begin(method, path, body, media_type)
        self._waiting = asyncio.get_running_loop().create_future()
        return await self._waiting

    async def send(self, method: str, path: str, body: Any, media_type: str = "application/json") -> None:
        """Send an object, or a part of one. Raises RuntimeError if the server rejects it."""
        answer = await self.request(method, path, json.dumps(body).encode(), media_type)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body[:500]!r}")

    def watch(self, path: str, on_body: Callable[[bytes], None]) -> None:
        """Start a watch whose data is passed to `on_body` as it arrives, until the connection is closed."""
        self._on_body = on_body
        self._begin("GET", path, b"", "application/json")

    def close(self) -> None:
        self._transport.abort()

    def _begin(self, method: str, path: str, body: bytes, media_type: str) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._sent, self._first = time.perf_counter(), 0.0
        head = f"{method} {path} HTTP/1.1\r\n{self._head}"
        if body:
            head += f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
        self._transport.write(f"{head}\r\n".encode() + body)

    # -- callbacks of the transport and of the parser

    def data_received(self, data: bytes) -> None:
        self._first = self._first or time.perf_counter()
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._on_body(body)

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        body = b"".join(self._body)
        self._body.clear()
        if self._waiting and not self._waiting.done():
            answer = Answer(self._parser.get_status_code(), body, self._first - self._sent, now - self._sent)
            self._waiting.set_result(answer)
