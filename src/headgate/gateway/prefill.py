"""A prompt on its way to the endpoint that prefills it: the connection, and the answer to us alone.

The answer is read whole, within bounds of size and time. Whoever began the call is told once how it ended,
unless it drops the call before.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

import httptools
import msgspec

from headgate.engines.transfer import PrefillAnswer
from headgate.engines.transfer.connectors import read_answer
from headgate.gateway import retry_after
from headgate.gateway.chunks import Chunks
from headgate.gateway.connections import ShortageError, why_unreachable
from headgate.requests.usage import AnswerTail, Tail

if TYPE_CHECKING:
    from headgate.gateway.connections import EndpointConnections
    from headgate.gateway.services import Services
    from headgate.gateway.upstream import FastPath, UpstreamConnection
    from headgate.requests.bodies.pieces import Pieces
    from headgate.requests.client import Header
    from headgate.requests.effects import Prefill

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 1 << 20
"""Of an answer with one token; the block ids of a prompt with a million tokens are half of it."""
LEFT_S = 10.0
"""How long an endpoint may take for an answer that nobody waits for any more."""


class Listener(Protocol):
    """Whoever waits for a prefill; has the events of `requests.prefill_way`."""

    def prefill_sent(self, now: float) -> None: ...
    def prefill_head(self, status: int, rest_s: float | None, now: float) -> None: ...
    def prefilled(self, answer: PrefillAnswer, now: float) -> None: ...
    def prefill_refused(self, status: int, headers: list[Header], body: bytes, now: float) -> None: ...
    def prefill_failed(self, reason: str, message: str, now: float) -> None: ...
    def prefill_impossible(self, message: str, now: float) -> None: ...


class PrefillCall:
    """Started once; over when its listener was told how it ended, or when it was dropped."""

    __slots__ = (
        "_attempt",
        "_body",
        "_chunks",
        "_connecting",
        "_connection",
        "_headers",
        "_listener",
        "_long_body",
        "_needs_answer",
        "_payload",
        "_pool",
        "_services",
        "_size",
        "_status",
        "_timer",
        "is_over",
        "now",
        "tail",
    )

    def __init__(
        self, services: Services, listener: Listener, effect: Prefill, payload: tuple[bytes, bytes | Pieces]
    ) -> None:
        self._services = services
        self.now = services.now
        self._listener: Listener | None = listener
        """None once nobody waits for it."""
        self._pool = effect.pool
        self._attempt = effect.attempt
        self._needs_answer = effect.needs_answer
        self._payload, self._long_body = payload
        self.tail: AnswerTail = Tail()
        """Never filled: the answer passes through `forward`."""
        self.is_over = False
        self._status = 0
        self._headers: list[Header] = []
        self._body: list[bytes] = []
        self._size = 0
        self._chunks: Chunks | None = None
        self._connection: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Sends the prompt on a connection that there is or is made."""
        timeout_s = self._pool.pool.timeout_s
        if timeout_s is not None:
            self._timer = self._services.loop.call_later(timeout_s, self._took_too_long)
        connections = self._connections()
        connection = connections.take()
        if connection is not None:
            self._send_on(connection)
        else:
            self._connecting = self._services.spawn(self._connect(connections))

    def _connections(self) -> EndpointConnections:
        return self._services.connections_to(self._pool, self._attempt.load)

    async def _connect(self, connections: EndpointConnections) -> None:
        began_at = self.now()
        try:
            connection = await connections.connect()
        except ShortageError as error:
            self._connecting = None
            listener = self._end()
            if listener is not None:
                listener.prefill_impossible(str(error), self.now())
            return
        except Exception as error:
            if not isinstance(error, OSError | ValueError):
                log.exception("connecting to %s", connections.endpoint.address)
            self._connecting = None
            if isinstance(error, ConnectionRefusedError):
                # its process has ended, and its cache with it
                self._services.plane.engine_restarted(self._attempt.load)
            self._fail("connect", why_unreachable(error))
            return
        self._connecting = None
        self._services.plane.connected(self._pool, self.now() - began_at)
        self._send_on(connection)

    def _send_on(self, connection: UpstreamConnection) -> None:
        self._connection = connection
        if self._listener is not None:
            self._listener.prefill_sent(self.now())
        connection.send(self, self._payload, self._long_body)

    # -- what the upstream connection reports

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        """Raises HttpParserError for framing that cannot be read."""
        self._status, self._headers = status, headers
        rest_s = retry_after.seconds(headers) if status in retry_after.STATUSES else None
        if self._listener is not None:
            self._listener.prefill_head(status, rest_s, now)
        elif self._attempt.head(self._services.plane, status, rest_s, now):
            self.drop()
        if self.is_over:
            return
        length: int | None = None
        for name, value in headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                if value.lower() != b"chunked":
                    raise httptools.HttpParserError("it has a transfer-encoding besides chunked")
                self._chunks = Chunks()
        if self._chunks is None and length is None and status != 204:
            connection.ends_with_connection()
        if length is not None and length > MAX_ANSWER_BYTES:
            self._fail("oversized", f"sent an answer of {length} bytes to a prefill")

    def forward(self, data: bytes, now: float) -> None:
        """Keeps bytes of the body, within bounds."""
        if self.is_over:
            return
        self._attempt.heard(now)
        if self._chunks is not None:
            data, _ = self._chunks.feed(data)
        self._size += len(data)
        if self._size > MAX_ANSWER_BYTES:
            self._fail("oversized", f"sent more than {MAX_ANSWER_BYTES} bytes as its answer to a prefill")
        elif data:
            self._body.append(data)

    def fast_path(self) -> FastPath | None:
        """All of it passes through `forward`."""
        return None

    def finished(self, now: float) -> None:
        """The answer is complete."""
        if self.is_over:
            return
        self._connection = None
        body = b"".join(self._body)
        if self._status >= 400:
            listener = self._end()
            if listener is not None:
                listener.prefill_refused(self._status, self._headers, body, now)
            return
        try:
            read = read_answer(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if self._needs_answer:
                self._fail("invalid", f"sent an answer to a prefill that cannot be read: {error}")
                return
            read = PrefillAnswer()
        if self._listener is None:
            self._attempt.succeeded(self._services.plane, read, now)
        listener = self._end()
        if listener is not None:
            listener.prefilled(read, now)

    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None:
        """The connection ended before the answer did; an idle one may have crossed with our request."""
        if self.is_over:
            return
        self._connection = None
        if connection.reused and not connection.has_begun:
            self._connecting = self._services.spawn(self._connect(self._connections()))
        else:
            self._fail("reset", message)

    def upstream_broke(self, message: str) -> None:
        self._connection = None
        self._fail("invalid", message)

    # -- ends

    def _took_too_long(self) -> None:
        self._timer = None
        self._fail("timeout", "did not answer the prefill in time")

    def leave(self) -> None:
        """Nobody waits for it any more, and its endpoint is about to be done: it may end by itself."""
        self._listener = None
        self._services.left_behind.add(self)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._services.loop.call_later(LEFT_S, self._took_too_long)

    def drop(self) -> None:
        """Nobody waits for it any more: the endpoint stops at once. Does nothing where it is over."""
        if not self.is_over:
            self._end()

    def _fail(self, reason: str, message: str) -> None:
        if not self.is_over:
            listener = self._end()
            if listener is not None:
                address = self._attempt.load.endpoint.address
                listener.prefill_failed(reason, f"{address} {message}", self.now())

    def _end(self) -> Listener | None:
        """Returns whoever waits for it, to be told once. They keep this object: if it kept them too, only a
        garbage collection would free both."""
        listener, self._listener = self._listener, None
        self.is_over = True
        self._payload = self._long_body = b""
        self._body.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if listener is None:
            self._attempt.end(self.now())
        self._services.left_behind.discard(self)
        return listener
