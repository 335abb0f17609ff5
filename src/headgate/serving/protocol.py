"""uvicorn's protocol within limits: what the clients of one server may take up.

What costs much more time than its bytes are worth is bounded in number (headers, chunks, escapes), and is
parsed in turns: many clients together leave most of each turn of the event loop to others.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

import httptools
import msgspec
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from headgate import loop_turns

MAX_PIPELINED = 16
"""Requests that a client may send before it has the response to the first."""
MAX_FRAMING_BYTES = 1 << 20
"""Of chunk sizes and trailers, however long the body is."""
MAX_CHUNKS = 1000
"""Of one body."""
BODY_BYTES_PER_CHUNK = 64
"""One more chunk for so many bytes of the body."""
MAX_ESCAPES = 4096
"""Characters of a target that are written as `%` and two digits. Each costs as much as a hundred others."""
MANY_LINES = 32
"""A short read with more is parsed in turns: it may have hundreds of headers, chunks or requests."""

_AUTHORITY = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")

Reason: TypeAlias = Literal[
    "too_many_connections",
    "head_too_large",
    "request_timeout",
    "too_many_pipelined",
    "too_many_chunks",
    "too_many_escapes",
    "out_of_descriptors",
]
"""Why a connection was ended."""


@dataclass(frozen=True)
class Limits:
    """What the clients of one server may take up. Whatever exceeds a limit is rejected and disconnected."""

    connections: int = 64
    """At one more, the connection that has waited longest for its client is closed, so that idle or slow
    clients never lock others out. If all are being answered, the new one is rejected."""
    head_bytes: int = 16 * 1024
    """Of a request line and all headers. Chunk sizes and trailers may be longer by the length of the body."""
    headers: int = 100
    """Of one request, its trailers included."""
    request_s: float = 10.0
    """From a request's first byte (or the connection's beginning) to the last byte of its body."""
    stalled_s: float = 30.0
    """How long a client may take nothing of what is sent to it."""


class State(ServerState):
    """What the connections of one server share."""

    @functools.cached_property
    def reads(self) -> loop_turns.Turns:
        """Whose bytes are parsed in which turn of the event loop."""
        return loop_turns.Turns(asyncio.get_running_loop())


class _Flow(FlowControl):
    """uvicorn's, of a connection that reads nothing while it waits for its turn."""

    waits_for_turn = False

    def resume_reading(self) -> None:
        if self.waits_for_turn:
            self.read_paused = False
        else:
            super().resume_reading()

    def wait(self) -> None:
        self.waits_for_turn = True
        self._transport.pause_reading()

    def read_on(self) -> None:
        """Its turn is over; uvicorn may have other reasons to wait."""
        if not self.read_paused:
            self._transport.resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within limits. uvicorn bounds none of these; the size of a body is bounded by
    whoever reads it.

    `within` makes subclasses with limits of their own.
    """

    limits = Limits()
    rejected: Callable[[Reason], None] = staticmethod(lambda reason: None)
    """Called for each connection that is ended for exceeding a limit."""
    _arriving: asyncio.TimerHandle | None = None
    """Runs until all of a request has arrived."""
    _waits_from = math.inf
    """Since when the server waits for the client."""
    _overhead = _body = 0
    """Bytes of the request that is arriving: of its body, and all others."""
    _chunks = 0
    """Of its body."""
    _unread = b""
    """What has come and is left for a later turn of the event loop."""
    _is_light = True
    """Whether all that it ever brought was parsed in one turn."""
    flow: _Flow

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: State,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._reads = server_state.reads

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport)
        if len(self.connections) > self.limits.connections and not self._make_room():
            told = f"the limit is {self.limits.connections} connections: try again"
            self._reject("too_many_connections", told)
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        self._unread = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if len(data) > loop_turns.AT_ONCE_BYTES or self._unread or data.count(b"\n") > MANY_LINES:
            self._receive_in_turns(data)
        else:
            self._receive(data, False)

    def _receive_in_turns(self, data: bytes) -> None:
        """Data that may take long to parse, and behind which more may be waiting to be read."""
        if self._unread or not self._reads.has_time:
            self._unread += data  # where some was left, this was on its way as reading was paused
        else:
            self._unread = self._reads.read(data, self._receive)
            self._is_light = self._is_light and not self._unread
        if len(data) >= loop_turns.LONG_READ_BYTES:
            self._is_light = False
        is_long = self._unread or len(data) >= loop_turns.LONG_READ_BYTES
        if is_long and not self.flow.waits_for_turn and not self.transport.is_closing():
            self.flow.wait()
            self._reads.wait(self._read_on, is_light=self._is_light)

    def _read_on(self) -> bool:
        self.flow.waits_for_turn = False
        data, self._unread = self._unread, b""
        if self.transport.is_closing():
            return False
        if data:
            self._receive_in_turns(data)
        if self.flow.waits_for_turn or self.transport.is_closing():
            return False
        self.flow.read_on()
        return not data or len(data) >= loop_turns.LONG_READ_BYTES

    def _receive(self, data: bytes, more: bool) -> bool:
        """Parses a piece; returns whether the connection takes further ones."""
        if self.transport.is_closing():
            return False
        self._overhead += len(data)
        super().data_received(data)
        most = self.limits.head_bytes + min(self._body, MAX_FRAMING_BYTES)
        if self._overhead > most and not self.transport.is_closing():
            told = f"the request line and the headers have more than {self.limits.head_bytes} bytes"
            self._reject("head_too_large", told)
        return not self.transport.is_closing()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if len(self.pipeline) >= MAX_PIPELINED:
            self.rejected("too_many_pipelined")
            raise httptools.HttpParserError("too many requests at a time")  # answered with 400
        if self._arriving is None:
            self._expect_request()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > self.limits.headers:
            self._stop("head_too_large", f"the request has more than {self.limits.headers} headers")

    def on_headers_complete(self) -> None:
        """Where the target is a URL, its host counts and that of the header does not (RFC 9112, 3.2.2)."""
        if self.url.count(b"%") > MAX_ESCAPES:
            told = f"the path and the query have more than {MAX_ESCAPES} escaped characters"
            self._stop("too_many_escapes", told)
        if found := _AUTHORITY.match(self.url):
            others = [header for header in self.headers if header[0] != b"host"]
            self.headers[:] = [(b"host", found[1]), *others]
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > MAX_CHUNKS + self._body // BODY_BYTES_PER_CHUNK:
            self._stop("too_many_chunks", f"the body has more than {MAX_CHUNKS} chunks, most of them tiny")

    def on_body(self, body: bytes) -> None:
        self._overhead -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._arrived()
        self._overhead = self._body = self._chunks = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._waits_from = self.loop.time()
        super().on_response_complete()

    def _expect_request(self) -> None:
        self._waits_from = self.loop.time()
        self._arriving = self.loop.call_later(self.limits.request_s, self._too_slow)

    def _arrived(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _too_slow(self) -> None:
        self._reject(
            "request_timeout", f"the request did not arrive within {self.limits.request_s:g} seconds"
        )

    @property
    def _is_waiting(self) -> bool:
        """Whether it is the client's turn, and nothing would be lost if it were disconnected."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return (is_answered or self._arriving is not None) and not self.transport.is_closing()

    def _make_room(self) -> bool:
        """Closes the connection that has waited longest; returns whether there is room now."""
        others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
        if sum(not each.transport.is_closing() for each in others) < self.limits.connections:
            return True  # some are closed, though not yet gone
        waiting = [each for each in others if each._is_waiting]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: each._waits_from)
        self.rejected("too_many_connections")
        oldest.transport.abort()
        return True

    def _stop(self, reason: Reason, told: str) -> None:
        """Rejects the connection from within a callback of the parser, and parses nothing more."""
        self._reject(reason, told)
        raise httptools.HttpParserError(told)

    def _reject(self, reason: Reason, told: str) -> None:
        """Answers, if nothing of another answer was sent, and closes without waiting for the peer."""
        self._arrived()
        self.rejected(reason)
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            status, headers, body = self.rejection(reason, told)
            lines = (b"content-type: application/json", *headers, b"content-length: %d" % len(body))
            head = b"\r\n".join((b"HTTP/1.1 %d " % status, *lines, b"connection: close\r\n\r\n"))
            self.transport.write(head + body)
        self.transport.close()

    def rejection(self, reason: Reason, told: str) -> tuple[int, list[bytes], bytes]:
        """The status of a rejection, its header lines besides those of any JSON, and its body."""
        status = _STATUSES[reason]
        retry = [b"retry-after: 1"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []
        return status, retry, msgspec.json.encode({"message": told})


_STATUSES: dict[Reason, HTTPStatus] = {
    "too_many_connections": HTTPStatus.SERVICE_UNAVAILABLE,
    "head_too_large": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "request_timeout": HTTPStatus.REQUEST_TIMEOUT,
    "too_many_chunks": HTTPStatus.BAD_REQUEST,
    "too_many_escapes": HTTPStatus.BAD_REQUEST,
}


def within(limits: Limits, rejected: Callable[[Reason], None]) -> type[BoundedProtocol]:
    """The protocol class for these limits."""
    members = {"limits": limits, "rejected": staticmethod(rejected)}
    return type(BoundedProtocol.__name__, (BoundedProtocol,), members)
