"""A small HTTP client whose timestamps are those of the socket.

`Server.send` opens a connection for each request before the clock starts. `Connections` keeps them open, as
the clients of applications do. Responses are untrusted and bounded.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from headgate.lookup import Lookup

__all__ = ["Connections", "HttpError", "Response", "Server", "parse"]

CONNECT_S: Final = 10.0
MAX_RESPONSE_BYTES: Final = 32 * 2**20
MAX_HEAD_BYTES: Final = 64 * 2**10
MAX_IDLE: Final = 4096
"""Connections kept open that no request uses."""

OnData = Callable[[bytes, float], None]
"""Gets a part of the body of a successful response, and when it came, by `time.perf_counter`."""

NAMED: Final = (b"x-headgate-decision", b"x-headgate-model", b"x-inference-pod", b"retry-after")
"""Response headers that are kept: those that name the endpoint or another model, and when to try again."""


class HttpError(Exception):
    """A request failed; the message says how, without the address. `kind` is one word for counting."""

    def __init__(self, message: str, kind: str = "protocol") -> None:
        super().__init__(message)
        self.kind = kind


class _StaleError(Exception):
    """The server closed a connection that was kept open, before any part of the response."""


class Response(NamedTuple):
    status: int
    body: bytes
    """Empty if the parts of the body went elsewhere."""
    sent_s: float
    """When the request was sent, by `time.perf_counter`."""
    headers: Mapping[bytes, bytes] = {}
    """Those of `NAMED`."""


class Server(NamedTuple):
    """Where the API is, and with which key and headers."""

    url: str
    host: str
    port: int
    tls: ssl.SSLContext | None
    path: str
    """Before /v1."""
    api_key: str
    headers: Sequence[tuple[str, str]] = ()
    """Sent with each request."""

    async def get(self, path: str, timeout_s: float) -> Response:
        """Raises HttpError, also for no response in time."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.send("GET", path)
        except TimeoutError:
            raise HttpError(f"no response to GET {path} within {timeout_s:g} s", "timeout") from None

    async def send(
        self, method: str, path: str, body: bytes = b"", on_data: OnData | None = None
    ) -> Response:
        """Send a request on its own connection; parts of a successful response go to `on_data`.

        Raises HttpError.
        """
        connection = await _opened(self)
        try:
            return await connection.exchange(self.head(method, path, len(body), "close") + body, on_data)
        finally:
            connection.abort()

    def head(self, method: str, path: str, length: int, connection: str = "keep-alive") -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [
            f"{method} {self.path}{path} HTTP/1.1",
            f"host: {host}:{self.port}",
            "user-agent: headgate",
            f"connection: {connection}",
        ]
        if length:
            lines += ["content-type: application/json", f"content-length: {length}"]
        if self.api_key:
            lines.append(f"authorization: Bearer {self.api_key}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def parse(
    url: str,
    api_key: str = "",
    headers: Sequence[tuple[str, str]] = (),
    tls: ssl.SSLContext | None = None,
) -> Server:
    """The server at a URL, with or without /v1. Raises ValueError."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    if parts.username is not None or not f"{path}{parts.hostname}".isascii() or not path.isprintable():
        raise ValueError(f"{url!r} has characters or credentials that a URL of an engine must not have")
    is_tls = parts.scheme == "https"
    context = (tls or ssl.create_default_context()) if is_tls else None
    port = parts.port or (443 if is_tls else 80)  # an impossible port raises ValueError
    base = f"{parts.scheme}://{parts.netloc}{path}"
    return Server(base, parts.hostname, port, context, path, api_key, tuple(headers))


class Connections:
    """Connections to one server, each for one request at a time and kept open for the next one."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.opened = 0
        self._lookup = Lookup(server.host)
        self._addresses: list[str] = []
        self._idle: list[_Connection] = []

    async def send(self, request: bytes, on_data: OnData | None = None) -> Response:
        """Send a request with its head; raises HttpError. A connection that the server closed while nobody
        used it is replaced."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                try:
                    return await self._exchange(connection, request, on_data)
                except _StaleError:
                    break
        return await self._exchange(await self._new(), request, on_data)

    async def _new(self) -> _Connection:
        """A connection to the next address of the server; names are resolved once. Raises HttpError."""
        if not self._addresses:
            try:
                self._addresses = await self._lookup.addresses()
            except OSError as error:
                raise HttpError(f"cannot connect: {error.strerror or error}", "connect") from error
        self.opened += 1
        return await _opened(self.server, self._addresses[self.opened % len(self._addresses)])

    async def _exchange(self, connection: _Connection, request: bytes, on_data: OnData | None) -> Response:
        is_kept = False
        try:
            response = await connection.exchange(request, on_data)
            is_kept = connection.is_usable and len(self._idle) < MAX_IDLE
            return response
        finally:
            if is_kept:
                self._idle.append(connection)
            else:
                connection.abort()

    def close(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()


async def _opened(server: Server, address: str = "") -> _Connection:
    """A new connection, to this address or any of the server. Raises HttpError."""
    loop = asyncio.get_running_loop()
    connection = _Connection()
    try:
        async with asyncio.timeout(CONNECT_S):
            await loop.create_connection(
                lambda: connection,
                address or server.host,
                server.port,
                ssl=server.tls,
                server_hostname=server.host if server.tls is not None else None,
            )
    except TimeoutError:
        connection.abort()
        raise HttpError(f"cannot connect within {CONNECT_S:g} s", "connect") from None
    except (OSError, ValueError) as error:  # a host that cannot be encoded raises ValueError
        kind = "tls" if isinstance(error, ssl.SSLError) else "connect"
        why = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or error
        raise HttpError(f"cannot connect: {why}", kind) from error
    except BaseException:
        connection.abort()
        raise
    return connection


class _Connection(asyncio.Protocol):
    """One request and its response at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._is_given_up = False
        self._exchanges = 0
        self._response: asyncio.Future[Response] | None = None

    @property
    def is_usable(self) -> bool:
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and (self._response is None or self._response.done())
        )

    def exchange(self, request: bytes, on_data: OnData | None) -> asyncio.Future[Response]:
        """Send a request; the future may raise HttpError, or _StaleError on a connection used before."""
        assert self._transport is not None
        self._response = asyncio.get_running_loop().create_future()
        self._on_data = on_data
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._read = 0
        self._is_body = False
        self._exchanges += 1
        self._sent_s = self._now_s = time.perf_counter()
        self._transport.write(request)
        return self._response

    def abort(self) -> None:
        """Close at once, even if the loop is still connecting."""
        self._is_given_up = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_given_up:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._response.done():
            self.abort()  # unsolicited data
            return
        self._now_s = time.perf_counter()
        self._read += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__
            self._fail(cause if isinstance(cause, HttpError) else HttpError(f"no valid HTTP: {error}"))
            return
        if self._read > (MAX_RESPONSE_BYTES if self._is_body else MAX_HEAD_BYTES):
            self._fail(HttpError("the response is too long", "too-long"))

    def connection_lost(self, error: Exception | None) -> None:
        if self._response is None or self._response.done():
            return
        if self._is_body and error is None and self._parser.get_http_version() == "1.0":
            self._complete()
        elif not self._read and self._exchanges > 1:
            self._fail(_StaleError())
        elif error is not None:
            self._fail(HttpError(f"the connection was closed: {error}", "reset"))
        else:
            self._fail(HttpError("the connection was closed too early", "closed"))

    def _fail(self, error: Exception) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
            self._response.exception()  # whoever waited may have been cancelled
        self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if (lower := name.lower()) in NAMED:
            self._headers[lower] = value

    def on_headers_complete(self) -> None:
        self._is_body = self._parser.get_status_code() >= 200

    def on_body(self, data: bytes) -> None:
        if self._on_data is not None and self._parser.get_status_code() == 200:
            self._on_data(data, self._now_s)
        else:
            self._body += data

    def on_message_complete(self) -> None:
        if self._is_body:
            self._complete()

    def _complete(self) -> None:
        if self._response is not None and not self._response.done():
            status = self._parser.get_status_code()
            keeps = self._parser.should_keep_alive()
            self._response.set_result(Response(status, bytes(self._body), self._sent_s, self._headers))
            if not keeps:
                self.abort()
