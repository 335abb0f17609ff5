"""One attempt to have a prompt prefilled: its connection, its answer, its account with the endpoint.

The answer is for the gateway alone: it is read whole, within bounds of size and time. Whoever began the
attempt is told once how it ended, unless it drops it before.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

import httptools
import msgspec

from headgate.engines.transfer import PrefillAnswer
from headgate.engines.transfer.connectors import read_answer
from headgate.fleet import blame
from headgate.gateway import retry_after
from headgate.gateway.chunks import Chunks
from headgate.gateway.connections import ShortageError, why_unreachable
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.usage import Tail

if TYPE_CHECKING:
    from headgate.gateway.connections import EndpointConnections
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.upstream import FastPath, UpstreamConnection
    from headgate.requests.client import Header
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice, Request

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 1 << 20
"""Of an answer with one token; the block ids of a prompt with a million tokens are half of it."""
LEFT_S = 10.0
"""How long an endpoint may take for an answer that nobody waits for any more."""


class Listener(Protocol):
    """Whoever waits for a prefill."""

    def prefilled(self) -> None:
        """The endpoint has done it."""

    def prefill_refused(self, status: int, headers: list[Header], body: bytes) -> None:
        """The endpoint answers that the request is wrong."""

    def prefill_failed(self, reason: str, message: str) -> None:
        """The endpoint did not do it."""

    def prefill_stopped(self) -> None:
        """Nothing at all is heard of the endpoint; it may have the prompt nevertheless."""

    def prefill_impossible(self, message: str) -> None:
        """The gateway itself cannot ask any endpoint."""


class _Nobody:
    """Does not listen."""

    def prefilled(self) -> None: ...
    def prefill_refused(self, status: int, headers: list[Header], body: bytes) -> None: ...
    def prefill_failed(self, reason: str, message: str) -> None: ...
    def prefill_stopped(self) -> None: ...
    def prefill_impossible(self, message: str) -> None: ...


_NOBODY = _Nobody()


class Prefill:
    """Started once; over when `took_s` is set, or when it was dropped."""

    __slots__ = (
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
        "_proxy",
        "_size",
        "_timer",
        "answer",
        "began_at",
        "booking",
        "choice",
        "heard_at",
        "is_over",
        "load",
        "now",
        "status",
        "tail",
        "took_s",
    )

    def __init__(
        self,
        proxy: Proxy,
        pool: PoolState,
        listener: Listener,
        choice: Choice,
        payload: tuple[bytes, bytes | Pieces],
        *,
        needs_answer: bool,
    ) -> None:
        self._proxy = proxy
        self.now = proxy.now
        self._pool = pool
        self._listener = listener
        self._payload, self._long_body = payload
        self._needs_answer = needs_answer
        self.choice = choice
        self.load = choice.load
        self.answer = PrefillAnswer()
        self.tail = Tail()
        """Never filled: the answer passes through `forward`."""
        self.began_at = self.heard_at = proxy.now()
        self.took_s = 0.0
        """How long it took; 0 as long as it has not succeeded."""
        self.is_over = False
        self.status = 0
        """Of its answer; 0 until that has begun."""
        self._headers: list[Header] = []
        self._body: list[bytes] = []
        self._size = 0
        self._chunks: Chunks | None = None
        self._connection: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, request: Request) -> None:
        """Books it, and sends it on a connection that there is or is made."""
        uncached_tokens = max(request.prompt_tokens - self.choice.cached_tokens, 0)
        self.booking = self.load.book(uncached_tokens, 0, self.began_at, adapter=request.adapter)
        self._pool.policy.booked(request, self.choice, self.began_at)
        timeout_s = self._pool.pool.timeout_s
        if timeout_s is not None:
            self._timer = self._proxy.loop.call_later(timeout_s, self._took_too_long)
        connections = self._proxy.connections(self._pool, self.load)
        connection = connections.take()
        if connection is not None:
            self._send_on(connection)
        else:
            self._connecting = self._proxy.spawn(self._connect(connections))

    async def _connect(self, connections: EndpointConnections) -> None:
        began_at = self._proxy.now()
        try:
            connection = await connections.connect()
        except ShortageError as error:
            self._connecting = None
            self._end().prefill_impossible(str(error))
            return
        except Exception as error:
            if not isinstance(error, OSError | ValueError):
                log.exception("connecting to %s", connections.endpoint.address)
            self._connecting = None
            if isinstance(error, ConnectionRefusedError):
                self._proxy.engine_restarted(self.load)  # its process has ended, and its cache with it
            self._fail("connect", why_unreachable(error))
            return
        self._connecting = None
        took_s = self._proxy.now() - began_at
        self._proxy.recorder.connected(self._pool, took_s)
        self._pool.evidence.connects.note(took_s)
        self._send_on(connection)

    def _send_on(self, connection: UpstreamConnection) -> None:
        self._connection = connection
        self.heard_at = self._proxy.now()
        connection.send(self, self._payload, self._long_body)

    # -- what the upstream connection reports

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        """Failures are told at once; of any other answer the body is read."""
        self.status, self._headers = status, headers
        if status < 400:
            self._pool.evidence.prefills.note(now - self.heard_at)
        self.heard_at = now
        rest_s = retry_after.seconds(headers) if status in retry_after.STATUSES else None
        if rest_s is not None:
            self._proxy.health.rests(self._pool, self.load, rest_s, now)
        if rest_s is not None or status >= 500 or status < 200 or 300 <= status < 400:
            self._fail(f"status_{status}", f"answered the prefill with status {status}")
            return
        if self.load.suspect_until > now and not blame.is_suspect(status):
            self.load.answered(now, self.began_at)
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
        self.heard_at = self.load.heard_at = now
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
        if self.status >= 400:
            self._end().prefill_refused(self.status, self._headers, body)
            return
        try:
            self.answer = read_answer(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if self._needs_answer:
                self._fail("invalid", f"sent an answer to a prefill that cannot be read: {error}")
                return
        if self.load.failures_in_row:
            self.load.succeeded(now, self.began_at)
        self.booking.first_token(now)
        self.took_s = max(now - self.began_at, 1e-9)
        self._proxy.recorder.prefilled(self._pool, self.took_s)
        self._end().prefilled()

    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None:
        """The connection ended before the answer did; an idle one may have crossed with our request."""
        if self.is_over:
            return
        self._connection = None
        if connection.reused and not connection.has_begun:
            connections = self._proxy.connections(self._pool, self.load)
            self._connecting = self._proxy.spawn(self._connect(connections))
        else:
            self._fail("reset", message)

    def upstream_broke(self, message: str) -> None:
        self._connection = None
        self._fail("invalid", message)

    # -- time

    def silent_s(self, now: float) -> float:
        """For how long the endpoint, which was asked, has sent nothing."""
        return now - self.heard_at if self._connection is not None else 0.0

    def sweep(self, now: float) -> None:
        """Judges an endpoint by how long nothing has come; called about once a second. One that is silent for
        too long is given up here where the pool has no timeout."""
        silent_s = self.silent_s(now)
        has_timer = self._timer is not None
        if not has_timer and silent_s > self._proxy.settings.endpoints.stream_response_timeout_s:
            self._took_too_long()
            return
        hang_s = self.load.policy.hang_s
        if silent_s > hang_s:
            self.load.hanging += 1
        long_s = self._pool.evidence.long_prefill_s(hang_s, now)
        if silent_s > long_s and self._proxy.health.is_stopped(self._pool, self.load, long_s, now):
            self._listener.prefill_stopped()

    def _took_too_long(self) -> None:
        self._timer = None
        self._fail("timeout", "did not answer the prefill in time")

    # -- ends

    def leave(self) -> None:
        """Nobody waits for it any more, and its endpoint is about to be done: it may end by itself."""
        self._listener = _NOBODY
        self._proxy.left_prefills.add(self)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._proxy.loop.call_later(LEFT_S, self._took_too_long)

    def drop(self) -> None:
        """Nobody waits for it any more: the endpoint stops at once. Does nothing where it is over."""
        if not self.is_over:
            self._end()

    def _fail(self, reason: str, message: str) -> None:
        if not self.is_over:
            self._end().prefill_failed(reason, f"{self.load.endpoint.address} {message}")

    def _end(self) -> Listener:
        """Returns whoever waits for it, to be notified once. They keep this object: if it kept them too, only
        a garbage collection would free both."""
        listener, self._listener = self._listener, _NOBODY
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
        self.booking.end(self._proxy.now())
        if self._pool.queue is not None:
            self._pool.queue.room_made()
        self._proxy.left_prefills.discard(self)
        return listener
