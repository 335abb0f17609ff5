"""Connections to endpoints: one HTTP/1.1 exchange at a time on each, kept alive in between.

The response head is parsed and rewritten. Body bytes are forwarded unchanged, including chunk framing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol, cast

import httptools

from headgate import loop_turns
from headgate.dataplane.bodies import LONG_BYTES
from headgate.dataplane.http2.errors import Http2Error, NotTakenError
from headgate.dataplane.rewriting.chunks import payload_at
from headgate.gateway import response_parser
from headgate.gateway.fast_path import FastPath
from headgate.gateway.response_parser import ResponseParser
from headgate.gateway.settings import GatewaySettings
from headgate.gateway.upload import Upload
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.client import Header

TOKEN_BYTES: Final = 512
"""Data up to this size, usually one token of a stream, is parsed without checking the time."""


class Exchange(Protocol):
    """The sender of a request. Receives the head, body and end of its response, or the failure."""

    now: Callable[[], float]
    """The clock, read once per reported event."""

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None: ...
    def forward(self, data: bytes, now: float) -> None: ...
    def fast_path(self, data: bytes) -> FastPath | None:
        """The fast path for the body after `data`; None if it must pass through `forward`."""
        ...

    def finished(self, now: float) -> None: ...
    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None: ...
    def upstream_broke(self, message: str) -> None: ...


class Home(Protocol):
    """The owner of the connections to one endpoint, which keeps the idle ones."""

    settings: GatewaySettings
    turns: loop_turns.LoopTurns

    @property
    def speaks_http2(self) -> bool: ...
    def give_back(self, connection: UpstreamConnection) -> None: ...
    def lost(self, connection: UpstreamConnection) -> None: ...


class Sending(Protocol):
    """Sends the body of a request, as fast as the endpoint reads."""

    @property
    def is_done(self) -> bool:
        """Whether everything was passed to the transport."""
        ...

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def drop(self) -> None:
        """The connection has ended."""


class UpstreamConnection:
    """One connection to an endpoint; owned by its `Home`, lent to one Exchange at a time.

    An asyncio protocol by its methods, not by inheritance: compiled classes have only compiled base classes.
    """

    __slots__ = (
        "_backlog",
        "_ends_with_connection",
        "_exchange",
        "_fast_path",
        "_home",
        "_is_given_up",
        "_is_paused",
        "_response",
        "_transport",
        "_upload",
        "idle_from",
        "reused",
    )

    def __init__(self, home: Home) -> None:
        self._home = home
        self._transport: asyncio.Transport | None = None
        self._is_given_up = False
        """Whether it was aborted, possibly before the loop has connected it."""
        self._exchange: Exchange | None = None
        self._upload: Sending | None = None
        """Sends the request body, if it is long."""
        self._response = ResponseParser()
        self._ends_with_connection = False
        """Whether the response has no length."""
        self._fast_path: FastPath | None = None
        """Set while body bytes skip the exchange."""
        self._backlog = loop_turns.Backlog()
        self._is_paused = False
        """Whether reading is paused because the client is slow."""
        self.reused = False
        """Whether it has served a request, so that the endpoint may have closed it since."""
        self.idle_from = 0
        """The sweep in which it became idle."""

    # -- lent to an exchange

    def send(self, exchange: Exchange, payload: bytes, body: bytes | Pieces = b"") -> None:
        """Send a request. A long body is passed separately, so that it is not copied."""
        transport = self._transport
        assert transport is not None
        self._exchange = exchange
        self._fast_path = self._upload = None
        self._ends_with_connection = False
        self._response.begin()
        if not body:
            transport.write(payload)
            return
        if isinstance(body, bytes) and len(body) <= LONG_BYTES:
            transport.write(payload + body)
            return
        buffers = body.buffers if isinstance(body, Pieces) else (body,)
        if self._home.speaks_http2:
            transport.writelines((payload, *buffers))
            return
        self._upload = upload = Upload(transport, self._home.turns.uploads, buffers)
        transport.write(payload)
        upload.send()

    def send_streamed(self, exchange: Exchange, payload: bytes, body: Sending) -> Callable[[bytes], None]:
        """Send the head of a request whose body follows. Returns what writes its bytes, until `body` is
        done or dropped."""
        self.send(exchange, payload)
        self._upload = body
        assert self._transport is not None
        return self._transport.write

    def send_upgrade(self, exchange: Exchange, payload: bytes, body: Sending) -> Callable[[bytes], None]:
        """Send a request for another protocol, which a response of status 101 begins. Returns what writes the
        client's bytes of it."""
        write = self.send_streamed(exchange, payload, body)
        self._response.may_switch = True
        return write

    @property
    def is_sending(self) -> bool:
        """Whether part of the request is still buffered here."""
        transport, upload = self._transport, self._upload
        if transport is None:
            return False
        return (upload is not None and not upload.is_done) or transport.get_write_buffer_size() > 0

    def pause_writing(self) -> None:
        if self._upload is not None:
            self._upload.pause()

    def resume_writing(self) -> None:
        if self._upload is not None:
            self._upload.resume()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._is_paused and not self._transport.is_closing():
            self._transport.pause_reading()
            self._is_paused = True

    def resume_reading(self) -> None:
        if self._transport is not None and self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            if self._backlog.data:
                self._wait_to_read()
            else:
                self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection immediately, so that the endpoint stops work on the request."""
        self._is_given_up = True
        self._backlog.data = b""
        self._let_go()
        if self._transport is not None:
            self._transport.abort()

    def _let_go(self) -> None:
        """Stop sending and receiving."""
        self._exchange = self._fast_path = None
        self._response.close()
        if self._upload is not None:
            self._upload.drop()
            self._upload = None

    @property
    def has_begun(self) -> bool:
        """Whether any byte of the response has arrived."""
        return self._response.has_begun

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_given_up:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        waits = self._backlog.data
        if len(data) <= TOKEN_BYTES and not waits:
            self._receive(data)
        elif len(data) <= loop_turns.AT_ONCE_BYTES and not waits and self._home.turns.downloads.has_time:
            began = perf_counter()
            self._receive(data)
            self._home.turns.downloads.spent(perf_counter() - began)
        else:
            self._receive_in_turns(data)

    def _receive(self, data: bytes) -> None:
        """Write body bytes directly to the client's transport, if there is a fast path."""
        exchange, path, response = self._exchange, self._fast_path, self._response
        if exchange is None or path is None:
            self._receive_first(exchange, data)
            return
        try:
            if not (response.is_between_chunks and payload_at(data)):
                response.feed(data)
            path.pass_on(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._response_is_invalid(exchange, error)
            return
        if response.is_complete:
            self._finish(exchange, exchange.now())

    def _receive_in_turns(self, data: bytes) -> None:
        """Parse data in slices, because a response may consist of very many tiny chunks and events."""
        backlog, downloads = self._backlog, self._home.turns.downloads
        if backlog.data:
            backlog.data += data  # it arrived while reading was being paused
            return
        if downloads.has_time:
            # Each piece is a separate write: for shorter ones, writes would cost more than parsing.
            backlog.data = downloads.read(data, self._take_piece, loop_turns.AT_ONCE_BYTES)
            backlog.is_light = backlog.is_light and not backlog.data
        else:
            backlog.data = data
        if backlog.data and self.usable:
            assert self._transport is not None
            self._transport.pause_reading()
            self._wait_to_read()

    def _take_piece(self, data: bytes, more: bool) -> bool:
        self._backlog.has_more = more
        self._receive(data)
        self._backlog.has_more = False
        return self.usable

    def _wait_to_read(self) -> None:
        """Parse the rest in a later turn: tiny chunks from many endpoints add up to milliseconds per turn."""
        backlog = self._backlog
        if not backlog.waits:
            backlog.waits = True
            self._home.turns.downloads.wait(self._read_on, is_light=backlog.is_light)

    def _read_on(self) -> bool:
        """Continue in this connection's turn, unless the client is slow."""
        backlog = self._backlog
        backlog.waits = False
        if self._is_paused or not self.usable:
            return False
        data = backlog.take()
        if data:
            self._receive_in_turns(data)
        if backlog.data or self._is_paused or not self.usable:
            return False
        assert self._transport is not None
        self._transport.resume_reading()
        return len(data) >= loop_turns.LONG_READ_BYTES

    def _receive_first(self, exchange: Exchange | None, data: bytes) -> None:
        """Handle a response head with the data after it, and body bytes without a fast path."""
        if exchange is None:
            self.abort()  # an unsolicited response: the connection cannot be trusted
            return
        now, response = exchange.now(), self._response
        try:
            if response.awaits_head:
                head = response.take_head(data, self._home.settings.endpoints.max_response_head_bytes)
                if head is None:
                    return
                exchange.response_head(self, head[0], head[1], now)
                if self._exchange is None:
                    return
                data = head[2]
            if data:
                if response.is_complete:
                    raise httptools.HttpParserError("bytes after the end of the response")
                response.feed(data)
            exchange.forward(data, now)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._response_is_invalid(exchange, error)
            return
        if response.is_complete:
            self._finish(exchange, now)
        else:
            self._fast_path = exchange.fast_path(data)

    def _response_is_invalid(self, exchange: Exchange, error: Exception) -> None:
        self.abort()
        exchange.upstream_broke(f"the endpoint's response is not valid HTTP: {response_parser.reason(error)}")

    def eof_received(self) -> bool:
        """The endpoint sends nothing more. Returning False makes the loop close the connection."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._backlog.data:
            self._receive(self._backlog.take())
        exchange, self._transport = self._exchange, None
        self._let_go()
        self._home.lost(self)
        if exchange is None:
            return
        if isinstance(error, Http2Error) and not isinstance(error, NotTakenError):
            self.reused = False  # no race with a close: the endpoint failed this request
        if self._ends_with_connection and error is None:
            exchange.finished(exchange.now())
        else:
            exchange.upstream_lost(
                self, "the endpoint closed the connection" if error is None else str(error)
            )

    def _finish(self, exchange: Exchange, now: float) -> None:
        self._exchange = self._fast_path = None
        transport, response = self._transport, self._response
        is_reusable = response.keep_alive and not self._ends_with_connection
        if transport is None:
            pass
        elif not is_reusable or self.is_sending or self._backlog.has_more:
            # An endpoint that responded before it read the whole request might misread the next one. A close
            # would wait, for an endpoint that may never read the rest, or for the TLS close of the endpoint.
            transport.abort()
        else:
            self.reused = True
            if self._is_paused:  # the client was too slow for the last chunk
                self.resume_reading()
            self._home.give_back(self)
        exchange.finished(now)

    def ends_with_connection(self) -> None:
        """The response has no length: it is complete when the endpoint closes the connection."""
        self._ends_with_connection = True
