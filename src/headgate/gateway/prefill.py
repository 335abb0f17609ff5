"""Sends a prompt to the endpoint that prefills it, and reads the response, which no client sees.

The response is read completely, within limits on size and time. The listener is notified once of the result,
unless it drops the call first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import httptools
import msgspec

from headgate.dataplane import retry_after
from headgate.dataplane.rewriting.chunks import Chunks
from headgate.engines.transfer import PrefillResponse
from headgate.engines.transfer.connectors import read_response
from headgate.gateway.connections import ShortageError, why_unreachable
from headgate.gateway.dial import Dial

if TYPE_CHECKING:
    from headgate.gateway.fast_path import FastPath
    from headgate.gateway.services import Services
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.bodies.pieces import Pieces
    from headgate.requests.client import Header
    from headgate.requests.effects import Prefill

MAX_RESPONSE_BYTES = 1 << 20
"""Limit for a response with one token. The block ids of a prompt with a million tokens take half of it."""
LEFT_S = 10.0
"""Timeout for a prefill that was left to end by itself."""


class Listener(Protocol):
    """The request that waits for a prefill; has the events of `requests.prefill_way`."""

    def prefill_sent(self, now: float) -> None: ...
    def prefill_head(self, status: int, rest_s: float | None, now: float) -> None: ...
    def prefilled(self, response: PrefillResponse, now: float) -> None: ...
    def prefill_refused(self, status: int, headers: list[Header], body: bytes, now: float) -> None: ...
    def prefill_failed(self, reason: str, message: str, now: float) -> None: ...
    def prefill_impossible(self, message: str, now: float) -> None: ...


class _Response:
    """The whole response of an endpoint to a prefill."""

    __slots__ = ("_chunks", "_pieces", "_size", "headers", "length", "status")

    def __init__(self, status: int, headers: list[Header]) -> None:
        """Raises HttpParserError for invalid framing."""
        self.status = status
        self.headers = headers
        self.length: int | None = None
        """The `content-length`; None without one."""
        self._chunks: Chunks | None = None
        for name, value in headers:
            if name == b"content-length":
                self.length = int(value)
            elif name == b"transfer-encoding":
                if value.lower() != b"chunked":
                    raise httptools.HttpParserError("it has a transfer-encoding other than chunked")
                self._chunks = Chunks()
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def ends_with_connection(self) -> bool:
        return self._chunks is None and self.length is None and self.status != 204

    def add(self, data: bytes) -> bool:
        """Keep bytes of the body; returns whether it is within the size limit."""
        if self._chunks is not None:
            data, _ = self._chunks.feed(data)
        self._size += len(data)
        if self._size > MAX_RESPONSE_BYTES:
            return False
        if data:
            self._pieces.append(data)
        return True

    def body(self) -> bytes:
        return b"".join(self._pieces)


class PrefillCall:
    """Started once; over when the listener was notified or the call was dropped."""

    __slots__ = (
        "_attempt",
        "_connection",
        "_dial",
        "_listener",
        "_needs_response",
        "_payload",
        "_pool",
        "_response",
        "_services",
        "_timer",
        "is_over",
        "now",
    )

    def __init__(
        self, services: Services, listener: Listener, effect: Prefill, payload: tuple[bytes, bytes | Pieces]
    ) -> None:
        """`payload`: the request, and its body if that is long."""
        self._services = services
        self.now = services.now
        self._listener: Listener | None = listener
        """None once the listener has left the call or was notified."""
        self._pool = effect.pool
        self._attempt = effect.attempt
        self._needs_response = effect.needs_response
        self._payload = payload
        self.is_over = False
        self._response: _Response | None = None
        self._connection: UpstreamConnection | None = None
        self._dial: Dial | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Send the prompt, on an idle connection or a new one."""
        timeout_s = self._pool.pool.timeout_s
        if timeout_s is not None:
            self._timer = self._services.loop.call_later(timeout_s, self._took_too_long)
        connection = self._services.connections_to(self._pool, self._attempt.load).take()
        if connection is not None:
            self._send_on(connection, self.now())
        else:
            self._connect()

    def _connect(self) -> None:
        self._dial = Dial(self._services, self, self._pool, self._attempt.load)

    def _send_on(self, connection: UpstreamConnection, now: float) -> None:
        self._connection = connection
        if self._listener is not None:
            self._listener.prefill_sent(now)
        connection.send(self, *self._payload)

    # -- what the new connection reports

    def connected(self, connection: UpstreamConnection, now: float) -> None:
        self._dial = None
        self._send_on(connection, now)

    def connect_failed(self, error: Exception, now: float) -> None:
        self._dial = None
        if not isinstance(error, ShortageError):
            self._fail("connect", why_unreachable(error))
        elif (listener := self._end()) is not None:
            listener.prefill_impossible(str(error), now)

    def connects_slowly(self, now: float) -> None:
        """Ignored: keep waiting."""

    # -- what the upstream connection reports

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        """Raises HttpParserError for invalid framing."""
        rest_s = retry_after.seconds(headers) if status in retry_after.STATUSES else None
        if self._listener is not None:
            self._listener.prefill_head(status, rest_s, now)
        elif self._attempt.head(self._services.plane, status, rest_s, now):
            self.drop()
        if self.is_over:
            return
        self._response = response = _Response(status, headers)
        if response.ends_with_connection:
            connection.ends_with_connection()
        if response.length is not None and response.length > MAX_RESPONSE_BYTES:
            self._fail("oversized", f"sent a prefill response of {response.length} bytes")

    def forward(self, data: bytes, now: float) -> None:
        """Keep bytes of the body, up to the size limit."""
        if self.is_over:
            return
        self._attempt.heard(now)
        if self._response is not None and not self._response.add(data):
            self._fail("oversized", f"sent a prefill response of more than {MAX_RESPONSE_BYTES} bytes")

    def fast_path(self, data: bytes) -> FastPath | None:
        """None: all bytes pass through `forward`."""
        return None

    def finished(self, now: float) -> None:
        """The response is complete."""
        response = self._response
        if self.is_over or response is None:
            return
        self._connection = None
        body = response.body()
        if response.status >= 400:
            listener = self._end()
            if listener is not None:
                listener.prefill_refused(response.status, response.headers, body, now)
            return
        try:
            read = read_response(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if self._needs_response:
                self._fail("invalid", f"sent an invalid prefill response: {error}")
                return
            read = PrefillResponse()
        if self._listener is None:
            self._attempt.succeeded(self._services.plane, read, now)
        listener = self._end()
        if listener is not None:
            listener.prefilled(read, now)

    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None:
        """The connection ended before the response did. The endpoint may have closed an idle one just as the
        request was sent: then connect again."""
        if self.is_over:
            return
        self._connection = None
        if connection.reused and not connection.has_begun:
            self._connect()
        else:
            self._fail("reset", message)

    def upstream_broke(self, message: str) -> None:
        self._connection = None
        self._fail("invalid", message)

    # -- ends

    def _took_too_long(self) -> None:
        self._timer = None
        self._fail("timeout", "did not respond to the prefill in time")

    def leave(self) -> None:
        """Let the call end by itself: nobody waits for it any more, and its endpoint is almost done."""
        self._listener = None
        self._services.background.left_behind.add(self)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._services.loop.call_later(LEFT_S, self._took_too_long)

    def drop(self) -> None:
        """Stop the endpoint immediately, as nobody waits for the prefill. No effect if the call is over."""
        if not self.is_over:
            self._end()

    def _fail(self, reason: str, message: str) -> None:
        if not self.is_over:
            listener = self._end()
            if listener is not None:
                address = self._attempt.load.endpoint.address
                listener.prefill_failed(reason, f"{address} {message}", self.now())

    def _end(self) -> Listener | None:
        """Release all resources; returns the listener for a last notification. This object must not keep the
        listener, which refers to it: only a garbage collection would free such a cycle."""
        listener, self._listener = self._listener, None
        self.is_over = True
        self._payload = b"", b""
        self._response = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        if self._dial is not None:
            self._dial.cancel()
            self._dial = None
        if listener is None:
            self._attempt.end(self.now())
        self._services.background.left_behind.discard(self)
        return listener
