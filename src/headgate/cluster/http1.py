"""HTTP/1.1 to one server, as a transport of httpx2.

It takes a fraction of the CPU time of httpx2's own, which counts where thousands of objects are written and
followed. Errors are those of httpx2.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import httptools
import httpx2

SocketOption = tuple[int, int, int]

_MOST_HEAD_BYTES = 1 << 20
_MOST_HELD_BYTES = 1 << 20
"""Of a body, before the server has to wait."""


class Http1Transport(httpx2.AsyncBaseTransport):
    """Connections to one server, each for one request at a time, and kept for the next one."""

    def __init__(
        self,
        tls: ssl.SSLContext,
        *,
        most: int,
        keepalive_s: float,
        socket_options: Sequence[SocketOption] = (),
    ) -> None:
        """At most `most` connections; idle ones are used again for `keepalive_s`, 0 for never."""
        self._tls = tls
        self._keepalive_s = keepalive_s
        self._socket_options = socket_options
        self._slots = asyncio.Semaphore(most)
        self._idle: deque[tuple[float, _Connection]] = deque()
        """With the time since when; the latest is last."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        timeouts = request.extensions.get("timeout", {})
        message = _head(request) + await request.aread()
        try:
            async with asyncio.timeout(timeouts.get("pool")):
                await self._slots.acquire()
        except TimeoutError as error:
            raise httpx2.PoolTimeout("all connections are in use", request=request) from error
        connection = None
        try:
            connection = self._take() or await self._connect(request.url, timeouts.get("connect"))
            read_s = timeouts.get("read")
            status, headers = await connection.exchange(message, read_s)
        except BaseException:
            self._release(connection)
            raise
        return httpx2.Response(status, headers=headers, stream=_Body(self, connection, read_s))

    async def aclose(self) -> None:
        while self._idle:
            _, connection = self._idle.pop()
            connection.abort()
        await asyncio.sleep(0)  # in which the event loop closes their sockets

    def _take(self) -> _Connection | None:
        """An idle connection. Those that are idle for too long are closed."""
        oldest = _now() - self._keepalive_s
        while self._idle and self._idle[0][0] <= oldest:
            self._idle.popleft()[1].abort()
        while self._idle:
            _, connection = self._idle.pop()
            if connection.is_reusable:
                return connection
        return None

    def _release(self, connection: _Connection | None) -> None:
        self._slots.release()
        if connection is None:
            return
        if connection.is_reusable and self._keepalive_s:
            self._idle.append((_now(), connection))
        else:
            connection.abort()

    async def _connect(self, url: httpx2.URL, within_s: float | None) -> _Connection:
        is_tls = url.scheme == "https"
        host, port = url.raw_host.decode("ascii"), url.port or (443 if is_tls else 80)
        try:
            async with asyncio.timeout(within_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self._socket_options), host, port, ssl=self._tls if is_tls else None
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(f"no connection within {within_s} s") from error
        except (OSError, RuntimeError, UnicodeError) as error:
            # uvloop raises RuntimeError for a connection that closes while it opens.
            raise httpx2.ConnectError(str(error)) from error
        return connection


class _Body(httpx2.AsyncByteStream):
    def __init__(self, transport: Http1Transport, connection: _Connection, read_s: float | None) -> None:
        self._transport = transport
        self._connection: _Connection | None = connection
        self._read_s = read_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._connection is not None and (part := await self._connection.part(self._read_s)):
            yield part

    async def aclose(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._transport._release(connection)


class _Connection(asyncio.Protocol):
    """One connection; the methods `on_...` are those of httptools."""

    def __init__(self, socket_options: Sequence[SocketOption]) -> None:
        self._socket_options = socket_options
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._response = _Response()
        self._news = asyncio.Event()
        self._error: Exception | None = None
        self._is_paused = False

    @property
    def is_reusable(self) -> bool:
        """Whether the last response was read to its end, and another one can follow."""
        return self._response.is_kept and not self._response.parts and self._error is None

    async def exchange(self, message: bytes, read_s: float | None) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Send a request; returns status and headers of the response."""
        self._response = response = _Response()
        self._parser = httptools.HttpResponseParser(self)
        if self._transport is not None:
            self._transport.write(message)
        while not response.status:
            await self._wait(read_s)
        return response.status, response.headers

    async def part(self, read_s: float | None) -> bytes:
        """The next part of the body; empty at its end."""
        response = self._response
        while not response.parts:
            if response.is_complete:
                return b""
            await self._wait(read_s)
        part = response.parts.popleft()
        response.held -= len(part)
        if self._is_paused and response.held < _MOST_HELD_BYTES and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return part

    def abort(self) -> None:
        self._failed(httpx2.ReadError("the connection was closed"))
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self, read_s: float | None) -> None:
        if self._error is not None:
            raise self._error
        self._news.clear()
        try:
            async with asyncio.timeout(read_s):
                await self._news.wait()
        except TimeoutError as error:
            raise httpx2.ReadTimeout(f"nothing arrived within {read_s} s") from error

    def _failed(self, error: Exception) -> None:
        self._error = self._error or error
        self._news.set()

    # Of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        own: socket.socket | None = transport.get_extra_info("socket")
        if own is None:
            return  # the server closed the connection at once
        try:
            for option in self._socket_options:
                own.setsockopt(*option)
        except OSError as error:
            self._failed(httpx2.ConnectError(str(error)))

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response.is_complete or self._parser is None:
            self._failed(httpx2.RemoteProtocolError("data without a request"))
            self.abort()
            return
        if not response.status:
            response.head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._failed(httpx2.RemoteProtocolError(f"not a valid HTTP response: {error}"))
        if response.head_bytes > _MOST_HEAD_BYTES:
            self._failed(httpx2.RemoteProtocolError("the head of the response is too long"))
        if self._error is not None:
            self.abort()
        elif response.held >= _MOST_HELD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        response = self._response
        if response.status and not response.is_framed:
            response.is_complete = True  # a body may end with the connection
        cause = f": {exc}" if exc else ""
        self._failed(httpx2.ReadError(f"the server closed the connection{cause}"))

    # Of httptools

    def on_message_begin(self) -> None:
        if self._response.is_complete:
            raise httptools.HttpParserError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        response = self._response
        response.is_framed |= name.lower() in (b"content-length", b"transfer-encoding")
        response.headers.append((name, value))

    def on_headers_complete(self) -> None:
        response, status = self._response, self._parser.get_status_code()
        if status < 200:
            response.headers.clear()  # an interim response
        else:
            response.status = status

    def on_body(self, part: bytes) -> None:
        self._response.parts.append(part)
        self._response.held += len(part)

    def on_message_complete(self) -> None:
        response = self._response
        if response.status:
            response.is_complete = True
            response.is_kept = self._parser.should_keep_alive()


class _Response:
    """What has arrived of a response."""

    def __init__(self) -> None:
        self.status = 0
        """0 until the head is complete."""
        self.headers: list[tuple[bytes, bytes]] = []
        self.head_bytes = 0
        self.parts: deque[bytes] = deque()
        self.held = 0
        """Bytes in `parts`."""
        self.is_framed = False
        """Whether its end does not depend on that of the connection."""
        self.is_complete = False
        self.is_kept = False
        """Whether the connection can be used again."""


def _head(request: httpx2.Request) -> bytes:
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in request.headers.raw]
    if any(b"\n" in line or b"\r" in line or b"\0" in line for line in lines):
        raise httpx2.LocalProtocolError("a header has a line end")
    return b"\r\n".join([*lines, b"", b""])


def _now() -> float:
    return asyncio.get_running_loop().time()
