"""An HTTP client for engines: one request at a time, on a persistent connection.

It is separate from the connections of the data path, so that these reads never take the place of clients'
requests.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

import httptools

from headgate.lookup import Lookup, why_unreachable
from headgate.loop_turns import LONG_READ_BYTES, Turns

MAX_HEAD_BYTES = 64 * 1024
MAX_PIECES = 16 * 1024
"""Of a body: chunks of single bytes would cost a thousand times their content."""
MAX_FRAMING_BYTES = MAX_HEAD_BYTES + 16 * MAX_PIECES
"""Of everything but the body: heads, chunk sizes, trailers."""


LARGE_BYTES = 256 * 1024
MAX_LARGE = 16
"""Responses longer than `LARGE_BYTES` held at a time."""


Http2 = Callable[[asyncio.Protocol, Turns, Turns], asyncio.Protocol]
"""Creates the adapter between a socket and an HTTP/1.1 protocol, with the turns of uploads and downloads."""


class FetchError(Exception):
    """Why there is no response, in words that follow the name of a server."""


class Response(NamedTuple):
    status: int
    body: bytes


class LargeResponses:
    """Limits how many of the clients that share it hold a large response at a time; others wait until one was
    read.

    A response may have 4 MB, and those of hundreds of engines may arrive at once.
    """

    def __init__(self, most: int = MAX_LARGE) -> None:
        self._free = most
        self._waiting: deque[Callable[[], bool]] = deque()

    def take(self, go_on: Callable[[], bool]) -> bool:
        """Whether a response may become large now. If not, `go_on` is called once it may, and returns whether
        it still needs to."""
        if self._free:
            self._free -= 1
            return True
        self._waiting.append(go_on)
        return False

    def give_back(self) -> None:
        """Free the slot of a large response that was read."""
        while self._waiting:
            if self._waiting.popleft()():
                return
        self._free += 1

    def statistics(self) -> dict[str, int]:
        return {"free": self._free, "waiting": len(self._waiting)}


class Client:
    """A client of one server. Call `release` when a response was read."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        server_name: str,
        *,
        http2: Http2 | None = None,
        turns: Turns | None = None,
        large: LargeResponses | None = None,
    ) -> None:
        """`server_name`: the name to verify in the certificate; empty for the host. `turns` and `large` may
        be shared with other clients. `http2` is the adapter for HTTP/2; None for HTTP/1.1."""
        self._http2 = http2
        self._turns = turns
        self._large = large or LargeResponses()
        self._lookup = Lookup(host)
        self._port, self._tls = port, tls
        self._server_name = (server_name or host) if tls is not None else None
        self._host_header = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._connection: _Connection | None = None
        self.connects = 0
        """Connections made so far."""

    async def get(self, path: str, accept: str, max_bytes: int, timeout_s: float) -> Response:
        """The complete response, whatever its status. Raises FetchError."""
        return await self._send(f"GET {path}", f"accept: {accept}\r\n", b"", max_bytes, timeout_s)

    def get_again(self, path: str, accept: str, max_bytes: int) -> asyncio.Future[Response] | None:
        """Like `get` on the connection that is kept, without a task and a time limit; None if there is none.

        The response may be NoResponseError, if the server closed the connection meanwhile, or FetchError.
        Whoever does not wait for it cancels it, and closes the client.
        """
        kept = self._connection
        if kept is None or not kept.is_usable:
            return None
        return kept.begin(self._request(f"GET {path}", f"accept: {accept}\r\n"), max_bytes)

    def _request(self, line: str, headers: str) -> bytes:
        head = f"{line} HTTP/1.1\r\nhost: {self._host_header}\r\n{headers}user-agent: headgate\r\n\r\n"
        return head.encode("latin-1")

    async def post(self, path: str, body: bytes, max_bytes: int, timeout_s: float) -> Response:
        """The complete response to JSON, whatever its status. Raises FetchError."""
        headers = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        return await self._send(f"POST {path}", headers, body, max_bytes, timeout_s)

    async def _send(self, line: str, headers: str, body: bytes, max_bytes: int, timeout_s: float) -> Response:
        request = self._request(line, headers) + body
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(request, max_bytes)
        except TimeoutError:
            self.close()
            raise FetchError(f"sent no answer within {timeout_s:g} s") from None
        except asyncio.CancelledError:
            self.close()
            raise

    async def _exchange(self, request: bytes, max_bytes: int) -> Response:
        kept = self._connection
        if kept is not None and kept.is_usable:
            try:
                return await kept.exchange(request, max_bytes)
            except NoResponseError:
                pass  # the server closed the idle connection just as the request was sent
        self._connection = connection = await self._connect()
        try:
            return await connection.exchange(request, max_bytes)
        except NoResponseError as error:
            why = f": {error}" if str(error) else ""
            raise FetchError(f"closed the connection without an answer{why}") from error

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        self.connects += 1
        turns = self._turns or Turns(loop)
        connection = _Connection(turns, self._large)
        protocol: asyncio.Protocol = connection
        if self._http2 is not None:
            protocol = self._http2(connection, turns, turns)
        try:
            await self._lookup.connected(
                lambda address: loop.create_connection(
                    lambda: protocol, address, self._port, ssl=self._tls, server_hostname=self._server_name
                )
            )
        except (OSError, ValueError) as error:  # a host that cannot even be encoded raises ValueError
            raise FetchError(why_unreachable(error)) from error
        except BaseException:
            # Just after the TLS handshake, a close would send close_notify and wait for that of the peer.
            connection.abort()
            raise
        return connection

    def release(self) -> None:
        """Let go of the response, if there was one."""
        if self._connection is not None:
            self._connection.release()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


class NoResponseError(Exception):
    """The connection ended before any part of the response arrived."""


class _Connection(asyncio.Protocol):
    """One exchange at a time. What is read of a response is bounded, and any violation ends the
    connection."""

    def __init__(self, turns: Turns, large: LargeResponses) -> None:
        self._turns = turns
        self._large = large
        self._may_be_large: bool | None = False
        """None while it waits for permission."""
        self._transport: asyncio.Transport | None = None
        self._is_given_up = False
        self._response: asyncio.Future[Response] | None = None
        self._reset(0)

    def _reset(self, max_bytes: int) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._left = self._max_bytes = max_bytes
        self._head_left = MAX_HEAD_BYTES
        self._framing_left = MAX_FRAMING_BYTES
        self._is_body = False
        self._has_length = False
        self._body: list[bytes] = []

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, max_bytes: int) -> Response:
        """Send a request and return the response. Raises FetchError or NoResponseError, after which the
        connection is unusable."""
        if self._transport is None:
            raise NoResponseError
        return await self.begin(request, max_bytes)

    def begin(self, request: bytes, max_bytes: int) -> asyncio.Future[Response]:
        """Send a request on a usable connection."""
        assert self._transport is not None
        self._response = response = asyncio.get_running_loop().create_future()
        self._reset(max_bytes)
        self._transport.write(request)
        return response

    def abort(self) -> None:
        """Close at once, even if the loop is still connecting."""
        self._is_given_up = True
        self.release()
        if self._transport is not None:
            self._transport.abort()

    def release(self) -> None:
        """Let go of the response."""
        self._body = []
        held, self._may_be_large = self._may_be_large, False
        if held:
            self._large.give_back()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_given_up:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._response.done():
            self.abort()  # unsolicited data
            return
        if not self._is_body:
            self._head_left -= len(data)
        self._framing_left -= len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(FetchError(f"sent no valid HTTP: {error.__context__ or error}"))
            return
        if not self._is_body and self._head_left < 0:
            self._fail(FetchError("sent a head that is too long"))
        elif self._framing_left < 0:
            self._fail(FetchError("sent sizes of chunks or trailers that are too long"))
        elif self._is_large and not self._may_be_large and self._response is not None and self.is_usable:
            self._wait_for_others()
        elif len(data) >= LONG_READ_BYTES and self.is_usable:
            assert self._transport is not None
            self._transport.pause_reading()
            self._turns.wait(self._read_on)

    @property
    def _is_large(self) -> bool:
        return self._max_bytes - self._left > LARGE_BYTES

    def _wait_for_others(self) -> None:
        """Pause until the response may become large."""
        assert self._transport is not None
        if self._may_be_large is None:
            return
        self._transport.pause_reading()
        self._may_be_large = None
        if self._large.take(self._become_large):
            self._become_large()

    def _become_large(self) -> bool:
        if self._may_be_large is not None or not self.is_usable:
            return False
        self._may_be_large = True
        self._turns.wait(self._read_on)
        return True

    def _read_on(self) -> bool:
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.resume_reading()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._response is None or self._response.done():
            return
        if self._is_body and not self._has_length and error is None:
            self._complete()
        elif self._is_body or self._head_left < MAX_HEAD_BYTES:
            self._fail(FetchError("closed the connection amid its answer"))
        else:
            self._fail(NoResponseError(str(error) if error is not None else ""))

    def _fail(self, error: Exception) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
        self.abort()

    def _complete(self) -> None:
        if self._response is not None and not self._response.done():
            body, self._body = b"".join(self._body), []
            self._response.set_result(Response(self._parser.get_status_code(), body))
        self._response = None

    # -- llhttp callbacks

    def on_header(self, name: bytes, _: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        self._is_body = self._parser.get_status_code() >= 200

    def on_body(self, data: bytes) -> None:
        self._left -= len(data)
        self._framing_left += len(data)
        if self._left < 0 or len(self._body) >= MAX_PIECES:
            raise httptools.HttpParserError("a body that is too long, or in too many pieces")
        self._body.append(data)

    def on_message_complete(self) -> None:
        if not self._is_body:
            return  # interim response
        keeps = self._parser.should_keep_alive()
        self._complete()
        if not keeps:
            self.abort()  # over TLS, a close would wait for the other end
