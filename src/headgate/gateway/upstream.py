"""Connections to endpoints: one HTTP/1.1 exchange at a time on each, kept alive in between.

The response head is parsed and rewritten; body bytes go to the client exactly as they came, chunk framing
included. llhttp reads them too, only to find the end of the response; a chunk that comes whole is recognised
without it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol, cast

import httptools

from headgate import loop_turns as turns
from headgate.gateway.bodies import LONG_BYTES
from headgate.gateway.chunks import payload_at
from headgate.gateway.http2.errors import Http2Error, NotTakenError
from headgate.gateway.settings import GatewaySettings
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.client import Header
from headgate.requests.usage import AnswerTail

_NEWLINE: Final = 10
_USAGE: Final = b'"usage"'

_VERSIONS: Final = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_MINOR_VERSION: Final = len(b"HTTP/1.")
_ZERO: Final = 48
_MAX_HEADERS: Final = 256
"""Of one response. Each is looked at several times, and 64 KB of head could have 16,000."""
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_NOTHING: Final = memoryview(b"")
_SENT_AT_ONCE: Final = 256 * 1024
TOKEN_BYTES: Final = 512
"""Of a stream, what is no longer is parsed without looking at the time: mostly it is one token."""
_NO_PARSER: Final = httptools.HttpResponseParser(None)
"""Stands in once a connection has ended. A parser refers to its connection, and the cycle would keep both
until the next garbage collection, which the gateway makes rare."""


FastPath = tuple[Callable[[bytes], bytes] | None, Callable[[bytes], None]]
"""What changes the bytes of an answer that flows, if anything does, and what writes them to the client."""


class Exchange(Protocol):
    """Whoever sent a request: told of its answer's head, body and end, or of what happened instead."""

    tail: AnswerTail
    """Gets the end of a body that goes the straight way."""

    now: Callable[[], float]
    """The clock, read once for each event that is reported."""

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None: ...
    def forward(self, data: bytes, now: float) -> None: ...
    def fast_path(self) -> FastPath | None: ...
    def finished(self, now: float) -> None: ...
    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None: ...
    def upstream_broke(self, message: str) -> None: ...


class Home(Protocol):
    """Where the connections to one endpoint are kept while no request has them."""

    settings: GatewaySettings
    uploads: turns.Turns
    downloads: turns.Turns

    @property
    def speaks_http2(self) -> bool: ...
    def give_back(self, connection: UpstreamConnection) -> None: ...
    def lost(self, connection: UpstreamConnection) -> None: ...


class UpstreamConnection:
    """One connection to an endpoint; owned by its `Home`, lent to one Exchange at a time.

    An asyncio protocol by its methods, not by inheritance: compiled classes have only compiled base classes.
    """

    __slots__ = (
        "_begun",
        "_change",
        "_chunk_is_over",
        "_complete",
        "_cut",
        "_exchange",
        "_head",
        "_headers",
        "_home",
        "_interim_bytes",
        "_is_between_chunks",
        "_is_given_up",
        "_is_light",
        "_keep_alive",
        "_more",
        "_parser",
        "_paused",
        "_transport",
        "_unread",
        "_unsent",
        "_unsent_later",
        "_until_close",
        "_waits_for_turn",
        "_waits_to_read",
        "_waits_to_send",
        "_write",
        "idle_from",
        "passed_bytes",
        "reused",
    )

    def __init__(self, home: Home) -> None:
        self._home = home
        self._transport: asyncio.Transport | None = None
        self._is_given_up = False
        """Whether nobody wants it any more, though the loop may still be about to connect it."""
        self._exchange: Exchange | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._head: bytes | None = b""
        """What has come of the response head; None once it is complete."""
        self._interim_bytes = 0
        """Of responses before the final one, which count towards its head: they could go on for ever."""
        self._begun = False
        self._complete = False
        self._chunk_is_over = False
        """Whether the last event of llhttp was the end of a chunk."""
        self._is_between_chunks = False
        """Whether llhttp stands before the size of a chunk, and may miss a whole one."""
        self._until_close = False
        self._keep_alive = False
        self._paused = False
        self._unread = b""
        """What has come and is left for the next turn of the event loop."""
        self._more = False
        """Whether what is being received goes on behind it."""
        self._unsent = _NOTHING
        """Of a long body, what the endpoint did not take yet; or the next part of that."""
        self._unsent_later: deque[memoryview] = deque()
        """Further parts."""
        self._waits_to_send = False
        """Whether the endpoint has to read before more is written."""
        self._waits_for_turn = False
        self._is_light = True
        """Whether all that it ever brought was parsed in one turn."""
        self._waits_to_read = False
        self._change: Callable[[bytes], bytes] | None = None
        self._write: Callable[[bytes], None] | None = None
        """Writes to the client, once its answer flows; `_change` makes of the bytes what the client gets."""
        self._cut = False
        """Whether the last bytes ended within a line or within token counts: what follows belongs to them."""
        self.passed_bytes = 0
        """Bytes of the answer that went straight to the client."""
        self.reused = False
        """Whether it served a request before, so that the peer may have closed it in the meantime."""
        self.idle_from = 0
        """In which sweep it fell idle."""

    # -- lent to an exchange

    def send(self, exchange: Exchange, payload: bytes, body: bytes | Pieces = b"") -> None:
        """Sends a request. A long body is passed by itself: it is not copied, and sent as the endpoint reads,
        since over TLS the transport would hold a second copy of what is not read."""
        assert self._transport is not None
        self._exchange = exchange
        self._write = None
        self._head = b""
        self._interim_bytes = 0
        self._begun = self._complete = self._until_close = self._cut = False
        self._chunk_is_over = self._is_between_chunks = False
        self.passed_bytes = 0
        if not body:
            self._transport.write(payload)
            return
        if isinstance(body, bytes) and len(body) <= LONG_BYTES:
            self._transport.write(payload + body)
            return
        buffers = body.buffers if isinstance(body, Pieces) else (body,)
        if self._home.speaks_http2:
            self._transport.writelines((payload, *buffers))
            return
        self._transport.write(payload)
        self._unsent_later = deque(memoryview(each) for each in buffers)
        self._unsent = self._unsent_later.popleft()
        self._send_body()

    def _send_body(self) -> None:
        """One part in each turn of the loop: an endpoint that reads fast could take all of it in one."""
        transport = self._transport
        if self._waits_to_send or self._waits_for_turn or transport is None:
            return
        size = 0
        while self._unsent and size < _SENT_AT_ONCE:
            room = _SENT_AT_ONCE - size
            sent, rest = self._unsent[:room], self._unsent[room:]
            if not rest:  # an empty part would hold all of the body
                rest = self._unsent_later.popleft() if self._unsent_later else _NOTHING
            self._unsent = rest
            size += len(sent)
            transport.write(sent)
        if self._unsent:
            self._waits_for_turn = True
            self._home.uploads.wait(self._send_on)

    def _send_on(self) -> bool:
        self._waits_for_turn = False
        self._send_body()
        return True

    @property
    def is_sending(self) -> bool:
        """Whether parts of a request are still held that the endpoint has not taken."""
        transport = self._transport
        return transport is not None and (bool(self._unsent) or transport.get_write_buffer_size() > 0)

    def pause_writing(self) -> None:
        self._waits_to_send = True

    def resume_writing(self) -> None:
        self._waits_to_send = False
        self._send_body()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._paused and not self._transport.is_closing():
            self._transport.pause_reading()
            self._paused = True

    def resume_reading(self) -> None:
        if self._transport is not None and self._paused and not self._transport.is_closing():
            self._paused = False
            if self._unread:
                self._wait_to_read()
            else:
                self._transport.resume_reading()

    def abort(self) -> None:
        """Ends the connection at once: the endpoint must not work on for nobody."""
        self._is_given_up = True
        self._exchange = self._write = self._change = None
        self._parser, self._unsent = _NO_PARSER, _NOTHING
        self._unread = b""
        self._unsent_later.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def has_begun(self) -> bool:
        """Whether anything of the response has come."""
        return self._head != b"" or self._interim_bytes > 0

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_given_up:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if len(data) <= TOKEN_BYTES and not self._unread:
            self._receive(data)
        elif len(data) <= turns.AT_ONCE_BYTES and not self._unread and self._home.downloads.has_time:
            began = perf_counter()
            self._receive(data)
            self._home.downloads.spent(perf_counter() - began)
        else:
            self._receive_in_turns(data)

    def _receive(self, data: bytes) -> None:
        """Once an answer flows, its bytes go straight to the client's transport.

        Of the exchange nothing is touched then: among hundreds of streams, each object that a chunk
        touches is a miss of the processor's cache.
        """
        exchange, write = self._exchange, self._write
        if exchange is None or write is None:
            self._receive_first(exchange, data)
            return
        change = self._change
        try:
            if not (self._is_between_chunks and payload_at(data)):
                self._parse(data)
            passed = data if change is None else change(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._answer_is_invalid(exchange, error)
            return
        if passed:
            write(passed)
        self.passed_bytes += len(data)
        if data[-1] != _NEWLINE or self._cut or data.find(_USAGE) >= 0:
            self._cut = _ends_amid(data, self._cut)
            exchange.tail.add(data)
        if self._complete:
            self._finish(exchange, exchange.now())

    def _parse(self, data: bytes) -> None:
        """Further bytes of the body, of which llhttp only tells where it ends."""
        self._parser.feed_data(data)
        self._is_between_chunks = self._chunk_is_over and data.endswith(b"\r\n")

    def _receive_in_turns(self, data: bytes) -> None:
        """Chunks and events of an answer may be tiny and many."""
        if self._unread:
            self._unread += data  # it was on its way as reading was paused
            return
        downloads = self._home.downloads
        if downloads.has_time:
            # Each piece is a write of its own: shorter ones would cost more than their parsing.
            self._unread = downloads.read(data, self._take_piece, turns.AT_ONCE_BYTES)
            self._is_light = self._is_light and not self._unread
        else:
            self._unread = data
        if self._unread and self.usable:
            assert self._transport is not None
            self._transport.pause_reading()
            self._wait_to_read()

    def _take_piece(self, data: bytes, more: bool) -> bool:
        self._more = more
        self._receive(data)
        self._more = False
        return self.usable

    def _wait_to_read(self) -> None:
        """Tiny chunks of many endpoints take a few milliseconds of a turn together."""
        if not self._waits_to_read:
            self._waits_to_read = True
            self._home.downloads.wait(self._read_on, is_light=self._is_light)

    def _read_on(self) -> bool:
        """Goes on when it is this connection's turn, unless the client is too slow."""
        self._waits_to_read = False
        if self._paused or not self.usable:
            return False
        data, self._unread = self._unread, b""
        if data:
            self._receive_in_turns(data)
        if self._unread or self._paused or not self.usable:
            return False
        assert self._transport is not None
        self._transport.resume_reading()
        return len(data) >= turns.LONG_READ_BYTES

    def _receive_first(self, exchange: Exchange | None, data: bytes) -> None:
        """The head of an answer with what came along, and all of an answer that is not passed on as it is."""
        if exchange is None:
            self.abort()  # an answer that nobody asked for: the connection cannot be trusted
            return
        now = exchange.now()
        try:
            if self._head is not None:
                rest = self._take_head(exchange, data, now)
                if rest is None or self._exchange is None:
                    return
                data = rest
            if data:
                if self._complete:
                    raise httptools.HttpParserError("bytes after the end of the response")
                self._parse(data)
            exchange.forward(data, now)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._answer_is_invalid(exchange, error)
            return
        if self._complete:
            self._finish(exchange, now)
        else:
            self._change, self._write = exchange.fast_path() or (None, None)
            self._cut = _ends_amid(data, False)

    def _answer_is_invalid(self, exchange: Exchange, error: Exception) -> None:
        self.abort()
        exchange.upstream_broke(f"the endpoint's answer is not valid HTTP: {_reason(error)}")

    def eof_received(self) -> bool:
        """The endpoint sends nothing more: the loop closes the connection."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._unread:
            data, self._unread = self._unread, b""
            self._receive(data)
        exchange, self._exchange = self._exchange, None
        self._transport = self._write = self._change = None
        self._parser, self._unsent = _NO_PARSER, _NOTHING
        self._unsent_later.clear()
        self._home.lost(self)
        if exchange is None:
            return
        if isinstance(error, Http2Error) and not isinstance(error, NotTakenError):
            self.reused = False  # it has not crossed with a close: this is what became of the request
        if self._until_close and error is None:
            exchange.finished(exchange.now())
        else:
            exchange.upstream_lost(
                self, "the endpoint closed the connection" if error is None else str(error)
            )

    # -- the response

    def _take_head(self, exchange: Exchange, data: bytes, now: float) -> bytes | None:
        """Parses the head as soon as all of it is there; returns what follows it, None to wait for more."""
        head = self._head + data if self._head else data
        while True:
            end = head.find(b"\r\n\r\n")
            size = end if end >= 0 else len(head)
            if self._interim_bytes + size > self._home.settings.endpoints.max_response_head_bytes:
                raise httptools.HttpParserError("the response head is too long")
            if end < 0:
                self._head = head
                return None
            if not head.startswith(_VERSIONS):
                raise httptools.HttpParserError("no status line of HTTP/1.1 or 1.0")
            is_http_1_0 = head[_MINOR_VERSION] == _ZERO
            self._headers = []
            self._parser.feed_data(head[: end + 4])
            status = self._parser.get_status_code()
            head = head[end + 4 :]
            if not self._begun or status < 100:
                raise httptools.HttpParserError("no status line")
            if status >= 200:
                break
            self._interim_bytes += end + 4
            self._begun = self._complete = False  # an interim response, which nobody asked for
        if len(self._headers) > _MAX_HEADERS:
            raise httptools.HttpParserError(f"the response has more than {_MAX_HEADERS} headers")
        if is_http_1_0 and any(name == b"transfer-encoding" for name, _ in self._headers):
            raise httptools.HttpParserError("it has a transfer-encoding, which HTTP/1.0 has not")
        self._head = None
        exchange.response_head(self, status, self._headers, now)
        return head

    def _finish(self, exchange: Exchange, now: float) -> None:
        self._exchange = self._write = self._change = None
        transport = self._transport
        if transport is None:
            pass
        elif self._until_close or not self._keep_alive or self.is_sending or self._more:
            # An endpoint that answered before it read all of the request might be confused by the next. A
            # close would wait: for an endpoint to read what it may never read, or over TLS for its goodbye.
            transport.abort()
        else:
            self.reused = True
            if self._paused:  # the client was too slow for the last chunk
                self.resume_reading()
            self._home.give_back(self)
        exchange.finished(now)

    def ends_with_connection(self) -> None:
        """The response has no length: it is complete when the endpoint closes the connection."""
        self._until_close = True

    # -- llhttp callbacks

    def on_message_begin(self) -> None:
        if self._begun:
            raise httptools.HttpParserError("a second response")
        self._begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if self._head is not None:
            self._headers.append((name, value))
        elif name in _FRAMING:
            raise httptools.HttpParserError("a trailer speaks of the length of the body")

    def on_chunk_header(self) -> None:
        self._chunk_is_over = False

    def on_chunk_complete(self) -> None:
        self._chunk_is_over = True

    def on_message_complete(self) -> None:
        self._complete = True
        self._keep_alive = self._parser.should_keep_alive()  # llhttp forgets it after this callback


def _ends_amid(data: bytes, was_cut: bool) -> bool:
    """Whether the data ends within a line, or within the counts of a `usage`, which a proxy before the engine
    may have divided among chunks: then more braces are open behind it than closed. `was_cut` says the same of
    the data before."""
    if not data.endswith(b"\n"):
        return True
    at = data.rfind(_USAGE)
    if at < 0:
        return was_cut and data.find(b"}") < 0
    return data.count(b"}", at) <= data.count(b"{", at)


def _reason(error: Exception) -> str:
    if isinstance(error, httptools.HttpParserUpgrade):
        return "a switch of protocols that nobody asked for"
    return str(error.__context__ or error)
