"""A small HTTP client whose timestamps are those of the socket.

One connection for each request: it is open before the clock starts, and closing it ends the request. The
response is untrusted and bounded.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httptools

__all__ = ["HttpError", "Response", "Server", "parse"]

CONNECT_S: Final = 10.0
MAX_RESPONSE_BYTES: Final = 32 * 2**20
MAX_HEAD_BYTES: Final = 64 * 2**10

OnData = Callable[[bytes, float], None]
"""Gets a part of the body of a successful response, and when it came, by `time.perf_counter`."""


class HttpError(Exception):
    """A request failed; the message says how, without the address."""


class Response(NamedTuple):
    status: int
    body: bytes
    """Empty if the parts of the body went elsewhere."""
    sent_s: float
    """When the request was sent, by `time.perf_counter`."""


class Server(NamedTuple):
    """Where the API is, and with which key."""

    url: str
    host: str
    port: int
    tls: ssl.SSLContext | None
    path: str
    """Before /v1."""
    api_key: str

    async def get(self, path: str, timeout_s: float) -> Response:
        """Raises HttpError, also for no response in time."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.send("GET", path)
        except TimeoutError:
            raise HttpError(f"no response to GET {path} within {timeout_s:g} s") from None

    async def send(
        self, method: str, path: str, body: bytes = b"", on_data: OnData | None = None
    ) -> Response:
        """Send a request; parts of a successful response go to `on_data`. Raises HttpError."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, protocol = await loop.create_connection(
                    lambda: _Exchange(on_data), self.host, self.port, ssl=self.tls
                )
        except TimeoutError:
            raise HttpError(f"cannot connect within {CONNECT_S:g} s") from None
        except (OSError, ValueError) as error:  # a host that cannot be encoded raises ValueError
            raise HttpError(f"cannot connect: {getattr(error, 'strerror', None) or error}") from error
        try:
            sent_s = time.perf_counter()
            transport.write(self._head(method, path, len(body)) + body)
            return Response(*await protocol.response, sent_s)
        finally:
            transport.abort()

    def _head(self, method: str, path: str, length: int) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [
            f"{method} {self.path}{path} HTTP/1.1",
            f"host: {host}:{self.port}",
            "user-agent: headgate",
            "connection: close",
        ]
        if length:
            lines += ["content-type: application/json", f"content-length: {length}"]
        if self.api_key:
            lines.append(f"authorization: Bearer {self.api_key}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def parse(url: str, api_key: str = "") -> Server:
    """The server at a URL, with or without /v1. Raises ValueError."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    if parts.username is not None or not f"{path}{parts.hostname}".isascii() or not path.isprintable():
        raise ValueError(f"{url!r} has characters or credentials that a URL of an engine must not have")
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)  # an impossible port raises ValueError
    base = f"{parts.scheme}://{parts.netloc}{path}"
    return Server(url=base, host=parts.hostname, port=port, tls=tls, path=path, api_key=api_key)


class _Exchange(asyncio.Protocol):
    """One request and its response."""

    def __init__(self, on_data: OnData | None) -> None:
        self.response: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._on_data = on_data
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._read = 0
        self._now_s = 0.0
        self._is_body = False

    def data_received(self, data: bytes) -> None:
        self._now_s = time.perf_counter()
        self._read += len(data)
        if self._read > (MAX_RESPONSE_BYTES if self._is_body else MAX_HEAD_BYTES + len(data)):
            self._fail("the response is too long")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(str(error.__context__ or f"no valid HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_body and error is None and self._parser.get_http_version() == "1.0":
            self.on_message_complete()
        self._fail(f"the connection was closed: {error}" if error else "the connection was closed too early")

    def _fail(self, message: str) -> None:
        if not self.response.done():
            self.response.set_exception(HttpError(message))
            self.response.exception()  # whoever waited may have been cancelled

    def on_headers_complete(self) -> None:
        self._is_body = self._parser.get_status_code() >= 200

    def on_body(self, data: bytes) -> None:
        if self._on_data is not None and self._parser.get_status_code() == 200:
            self._on_data(data, self._now_s)
        else:
            self._body += data

    def on_message_complete(self) -> None:
        if self._is_body and not self.response.done():
            self.response.set_result((self._parser.get_status_code(), bytes(self._body)))
