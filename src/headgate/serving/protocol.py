"""uvicorn's protocol with limits on what the clients of one server can use.

Input that costs much more time than its size suggests is limited in number (headers, chunks, escapes), and is
parsed in turns: even many clients together leave most of each turn of the event loop to others.
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
"""Chunk sizes and trailers, however long the body is."""
MAX_CHUNKS = 1000
"""Per body."""
BODY_BYTES_PER_CHUNK = 64
"""Each further block of this many bytes of the body allows one more chunk."""
MAX_ESCAPES = 4096
"""Percent-encoded characters of a target. Each costs as much as a hundred others."""
MANY_LINES = 32
"""A short read with more lines is parsed in turns: it may have hundreds of headers, chunks or requests."""

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
"""Why a connection was closed."""


@dataclass(frozen=True)
class Limits:
    """Limits for the clients of one server. Requests beyond a limit are rejected, and the connection is
    closed."""

    connections: int = 64
    """Beyond it, the connection that has waited longest for its client is closed, so that idle or slow
    clients never lock others out. If all are being served, the new one is rejected."""
    head_bytes: int = 16 * 1024
    """Request line and all headers. Chunk sizes and trailers may exceed it by the length of the body."""
    headers: int = 100
    """Per request, including trailers."""
    request_s: float = 10.0
    """From a request's first byte (or the start of the connection) to the last byte of its body."""
    stalled_s: float = 30.0
    """How long a client may accept no data."""


class State(ServerState):
    """State shared by the connections of one server."""

    @functools.cached_property
    def reads(self) -> loop_turns.Turns:
        """The turns of the event loop in which input is parsed."""
        return loop_turns.Turns(asyncio.get_running_loop())


class _Flow(FlowControl):
    """uvicorn's flow control, for a connection that pauses reading while it waits for its turn."""

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
        """Its turn is over; uvicorn may have other reasons to pause."""
        if not self.read_paused:
            self._transport.resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits, none of which uvicorn has. The application limits the size of a body.

    `within` creates subclasses with other limits.
    """

    limits = Limits()
    rejected: Callable[[Reason], None] = staticmethod(lambda reason: None)
    """Called for each connection that is closed for exceeding a limit."""
    _arriving: asyncio.TimerHandle | None = None
    """Runs until a request has arrived completely."""
    _waits_from = math.inf
    """Since when the server waits for the client."""
    _overhead = _body = 0
    """Bytes of the arriving request: of its body, and all others."""
    _chunks = 0
    """Chunks of its body."""
    _unread = b""
    """Received data left for a later turn of the event loop."""
    _is_light = True
    """Whether all its data so far was parsed in one turn."""
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
        """Handle data that may take long to parse, and after which more may be waiting."""
        if self._unread or not self._reads.has_time:
            self._unread += data  # data is left: this was received while reading was being paused
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
        """Parse a piece; returns whether the connection accepts more."""
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
            raise httptools.HttpParserError("too many requests at a time")  # rejected with 400
        if self._arriving is None:
            self._expect_request()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > self.limits.headers:
            self._stop("head_too_large", f"the request has more than {self.limits.headers} headers")

    def on_headers_complete(self) -> None:
        """If the target is a URL, its host overrides the header (RFC 9112, 3.2.2)."""
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
        """Whether it waits for the client, so that closing it loses nothing."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return (is_answered or self._arriving is not None) and not self.transport.is_closing()

    def _make_room(self) -> bool:
        """Close the connection that has waited longest; returns whether there is capacity now."""
        others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
        if sum(not each.transport.is_closing() for each in others) < self.limits.connections:
            return True  # some are closing
        waiting = [each for each in others if each._is_waiting]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: each._waits_from)
        self.rejected("too_many_connections")
        oldest.transport.abort()
        return True

    def _stop(self, reason: Reason, told: str) -> None:
        """Reject the connection from a callback of the parser, and parse nothing more."""
        self._reject(reason, told)
        raise httptools.HttpParserError(told)

    def _reject(self, reason: Reason, told: str) -> None:
        """Respond, unless another response was partly sent, and close without waiting for the peer."""
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
    """The protocol class with these limits."""
    members = {"limits": limits, "rejected": staticmethod(rejected)}
    return type(BoundedProtocol.__name__, (BoundedProtocol,), members)
