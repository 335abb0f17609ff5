"""A client connection: reads requests, passes each complete one to an exchange, and writes responses.

Requests of one connection are served one after the other. Pipelined requests wait here, up to a limit. This
module enforces limits on counts and times; the reader enforces those on sizes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from headgate import loop_turns as turns
from headgate.dataplane import trust
from headgate.dataplane.credentials import certificates
from headgate.dataplane.trust import Peer
from headgate.gateway import limits, local, refusals, unreadable
from headgate.gateway.exchange import Exchange
from headgate.gateway.reader import RequestReader
from headgate.gateway.tls.handshakes import Decrypted
from headgate.gateway.upload_exchange import UploadExchange, too_slow
from headgate.gateway.websocket import opening
from headgate.gateway.websocket.connection import WebSocketConnection
from headgate.http2.frames import PREFACE
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.clients import Clients
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.gateway.settings import GatewaySettings
    from headgate.requests.bodies.form_stream import FormStream

log = logging.getLogger(__name__)

LINGER_S: Final = 2.0
"""How long the input of a rejected client is discarded: after an immediate close it might not read why."""

READ_AHEAD_BYTES: Final = 64 * 1024
"""Reading pauses once the pipelined requests have more body bytes than this."""

_RESET: Final = struct.pack("ii", 1, 0)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class RequestsAhead:
    """Pipelined requests: sent before the response to an earlier one was complete. Oldest first."""

    __slots__ = ("body_bytes", "requests")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.body_bytes = 0

    def add(self, request: Request) -> None:
        self.requests.append(request)
        self.body_bytes += len(request.body)

    def next(self) -> Request:
        """Remove and return the oldest."""
        request = self.requests.pop(0)
        self.body_bytes -= len(request.body)
        return request

    def clear(self) -> None:
        self.requests.clear()
        self.body_bytes = 0


class ClientConnection:
    """One client connection, from accept to close.

    An asyncio protocol by its methods, not by inheritance: compiled classes have only compiled base classes.
    """

    __slots__ = (
        "_ahead",
        "_backlog",
        "_clients",
        "_counted_as",
        "_exchange",
        "_peer",
        "_reader",
        "_rejected",
        "_services",
        "_settings",
        "_transport",
        "is_paused",
    )

    _peer: Peer
    _reader: RequestReader

    def __init__(self, services: Services, clients: Clients) -> None:
        self._services = services
        self._clients = clients
        self._settings = services.settings.clients
        self._transport: asyncio.Transport | None = None
        self._counted_as = ""
        """The address that the client is counted under; empty if addresses are not counted."""
        self._exchange: Exchange | None = None
        self._ahead = RequestsAhead()
        self._rejected: Refusal | None = None
        self._backlog = turns.Backlog()
        self.is_paused = False
        """Whether writing is paused because the client reads slowly."""

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._settings.write_buffer_bytes)
        address = transport.get_extra_info("peername")
        is_secure = transport.get_extra_info("ssl_object") is not None
        host = str(address[0]) if isinstance(address, tuple) else ""
        peer = Peer(host, self._services.policy.trusted, b"https" if is_secure else b"http")
        peer.certificate = certificates.of(transport)
        self._peer = peer
        self._reader = RequestReader(self._services, self, peer)
        if self._clients.counts_addresses and not peer.is_trusted:
            self._counted_as = trust.counted_as(peer.address)
        refusal = self._clients.admit(self, self._counted_as)
        if refusal is not None:
            self._turn_away(refusal)

    def _turn_away(self, refusal: Refusal) -> None:
        """Reject the connection and close it; some linger first, with their input discarded. If the client is
        sending already, an immediate close causes a reset, which might overtake the response."""
        may_linger = self._clients.may_linger(self)
        self._rejected = refusal
        self._write_rejection(refusal)
        if not may_linger and self._transport is not None:
            self._transport.close()

    def change(self, settings: GatewaySettings) -> None:
        """Apply new settings; whether the peer is trusted was decided when it connected."""
        self._settings = settings.clients
        self._reader.change(settings, self._services.policy)

    @property
    def address(self) -> str:
        """The address of the peer, without its port: the client or a proxy."""
        return self._peer.address

    @property
    def exchange(self) -> Exchange | None:
        """The request being served."""
        return self._exchange

    @property
    def waiting(self) -> int:
        """The number of pipelined requests."""
        return len(self._ahead.requests)

    @property
    def reading_since(self) -> float | None:
        """When the request being read began to arrive; None if there is none."""
        is_reading = self._exchange is None and self._reader.is_amid_request
        return self._reader.begun_at if is_reading else None

    def data_received(self, data: bytes) -> None:
        uploads = self._services.turns.uploads
        if len(data) > turns.AT_ONCE_BYTES or self._backlog.data or not uploads.has_time:
            self._receive_in_turns(data, uploads)
        elif self._rejected is None:
            began = perf_counter()
            refusal = self._reader.feed(data)
            if refusal is not None:
                self._rejected_or_http2(refusal, data)
            uploads.spent(perf_counter() - began)

    def _unless_http2(self, data: bytes) -> bytes:
        """Let HTTP/2 have the connection if its preface ends in `data`; returns what is left to parse."""
        left = self._reader.preface_left()
        if not left or not data.startswith(left):
            return data
        refusal = self._reader.feed(left)
        if refusal is None:
            return data[len(left) :]
        if refusal is not unreadable.HTTP2 or not self._goes_on_with_http2(data[len(left) :]):
            self._reject(refusal)
        return b""

    def _rejected_or_http2(self, refusal: Refusal, data: bytes) -> None:
        """Reject `data`, unless the preface of HTTP/2 ends in it: then HTTP/2 has the connection."""
        if refusal is unreadable.HTTP2:
            left = self._reader.preface_left(len(data))
            if data.startswith(left) and self._goes_on_with_http2(data[len(left) :]):
                return
        self._reject(refusal)

    def _goes_on_with_http2(self, rest: bytes) -> bool:
        """Let HTTP/2 have a connection without TLS that begins with its preface ("prior knowledge"), and the
        `rest` of what has arrived."""
        transport = self._transport
        if self._exchange is not None or self._ahead.requests or self._rejected is not None:
            return False
        if transport is None or transport.get_extra_info("socket") is None or self._peer.scheme == b"https":
            return False
        self._clients.left(self, self._counted_as)
        self._transport = None
        self._reader.close()
        services, clients = self._services, self._clients

        def make() -> asyncio.Protocol:
            return cast(asyncio.Protocol, ClientConnection(services, clients))

        transport.resume_reading()  # it may have waited for its turn
        clients.http2.take_over(transport, make, PREFACE + rest)
        return True

    def _receive_in_turns(self, data: bytes, uploads: turns.Turns) -> None:
        """Handle data that may take long to parse, with more possibly unread behind it, or that arrives when
        the time of this turn is used up."""
        backlog = self._backlog
        if self._rejected is not None:
            pass
        elif backlog.data or not uploads.has_time:
            self._leave_unread(data)  # behind earlier unread data, it arrived while reading was being paused
        else:
            rest = self._unless_http2(self._rest_of_counted_body(data, uploads))
            if rest:
                rest = self._request_with_body(rest, uploads)
            if rest and (rest := uploads.read(rest, self._take_piece)):
                backlog.is_light = False
                self._leave_unread(rest)
        if len(data) >= turns.LONG_READ_BYTES:
            backlog.is_light = False
            self._wait_to_read()
        elif backlog.data:
            self._wait_to_read()

    def _rest_of_counted_body(self, data: bytes, uploads: turns.Turns) -> bytes:
        """Take the part that belongs to a body of known length, without parsing; returns what follows."""
        left = self._reader.body_left
        if not left:
            return data
        began = perf_counter()
        rest = data[left:] if self._take_piece(data[:left], False) else b""
        uploads.spent(perf_counter() - began)
        return rest

    def _request_with_body(self, data: bytes, uploads: turns.Turns) -> bytes:
        """Take a request with a short head and a body of known length; returns what follows. Most requests of
        more than a few kilobytes are like this, and cutting them into pieces would copy them once more."""
        began = perf_counter()
        read, refusal = self._reader.begin(data)
        if refusal is not None:
            self._reject(refusal)
        uploads.spent(perf_counter() - began)
        return b"" if refusal is not None else data[read:]

    def _leave_unread(self, data: bytes) -> None:
        """Keep data for a later turn. It counts as held memory, which would otherwise be unbounded."""
        memory, backlog = self._services.bodies, self._backlog
        backlog.data += data
        memory.held += len(data)
        if memory.is_exceeded_by(len(backlog.data)):
            self._reject(memory.refusal())

    def _take_unread(self) -> bytes:
        data = self._backlog.take()
        self._services.bodies.held -= len(data)
        return data

    def _take_piece(self, data: bytes, more: bool) -> bool:
        if self._transport is None or self._transport.is_closing():
            return False
        self._backlog.has_more = more
        refusal = self._reader.feed(data)
        self._backlog.has_more = False
        if refusal is not None:
            self._reject(refusal)
        return refusal is None

    def _wait_to_read(self) -> None:
        """Read long uploads in turns, including the discarded ones of rejected clients."""
        backlog = self._backlog
        if backlog.waits or self._transport is None or self._transport.is_closing():
            return
        is_amid = backlog.data or self._ahead.requests or self._reader.is_amid_request
        if self._rejected is None and not is_amid:
            return
        backlog.waits = True
        self._transport.pause_reading()
        self._services.turns.uploads.wait(self._read_on, is_light=backlog.is_light)

    def _read_on(self) -> bool:
        self._backlog.waits = False
        data, transport = self._take_unread(), self._transport
        if transport is None or transport.is_closing():
            return False
        if data:
            self._receive_in_turns(data, self._services.turns.uploads)
        if self._backlog.waits or (self._rejected is None and self._is_full):
            return False
        if not transport.is_closing():  # a WebSocket may have it now
            transport.resume_reading()
        return not data or len(data) >= turns.LONG_READ_BYTES

    def take(self, request: Request) -> Refusal | None:
        """Serve a request or keep it for later; returns a refusal if too many are kept."""
        if self._exchange is None and not self._ahead.requests and not self.is_paused:
            self._serve(request, request.arrived_at)
            return None
        return self._wait(request)

    @property
    def may_begin_upload(self) -> bool:
        """Whether a request can be served now, before its body is complete."""
        transport = self._transport
        is_free = self._exchange is None and not self._ahead.requests and not self.is_paused
        return is_free and transport is not None and not transport.is_closing()

    def take_upload(self, request: Request, form: FormStream) -> UploadExchange:
        """Serve a request whose body is sent as it comes."""
        exchange = UploadExchange(self._services, self, request, form)
        self._exchange = exchange
        exchange.start(request.arrived_at)
        return exchange

    def open_websocket(self, request: Request) -> Refusal | None:
        """Let a WebSocket have the connection, unless an earlier request is not answered yet."""
        transport = self._transport
        if transport is None or self._exchange is not None or self._ahead.requests:
            return Refusal.bad_request(
                "a WebSocket cannot be opened before earlier requests of its connection are answered",
                code="websocket_invalid",
            )
        if self._services.shutdown.is_draining:
            return Refusal.unavailable("the gateway is shutting down: connect again", code="shutting_down")
        if self._backlog.has_more:
            return opening.too_early()
        taken = WebSocketConnection(self._services, self._clients, transport, request, self._counted_as)
        self._clients.replace(self, taken)
        self._transport = None
        self._reader.close()
        transport.set_protocol(Decrypted(taken) if self._peer.scheme == b"https" else taken)
        taken.start()
        return None

    def may_continue(self) -> None:
        """Send `100 Continue` once all earlier responses are written: within one of them, the client would
        take it for a part of that response."""
        if self._exchange is None and not self._ahead.requests:
            self._reader.owes_continue = False
            self.write(_CONTINUE)

    def eof_received(self) -> bool:
        """Treat a client that stops sending as gone, as nginx and Envoy do: a closed connection looks the
        same, and its endpoint must stop work. Data already written is still sent.

        Returns whether the connection is closed later, as thousands of clients may leave at once: not with
        TLS, whose transport closes itself."""
        transport = self._transport
        if self._exchange is not None and transport is not None:
            transport.abort()
        if transport is None or transport.is_closing():
            self._gone()
            return False
        self._gone()
        if self._peer.scheme == b"https":
            return False
        self._transport = None
        self._take_unread()
        self._services.turns.closings.add(transport)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._clients.left(self, self._counted_as)
        self._gone()
        self._transport = None
        self._take_unread()
        self._reader.close()

    def pause_writing(self) -> None:
        self.is_paused = True
        if self._exchange is not None:
            self._exchange.pause()

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._exchange is not None:
            self._exchange.resume()
        elif self._ahead.requests:
            self._services.loop.call_soon(self._serve_next)

    def _gone(self) -> None:
        for request in self._ahead.requests:
            self._services.bodies.release(request)
        self._ahead.clear()
        self._reader.drop_body()
        exchange, self._exchange = self._exchange, None
        if exchange is not None and not exchange.life.is_over:
            exchange.client_gone()

    # -- serving

    def _wait(self, request: Request) -> Refusal | None:
        """Keep a pipelined request.

        Reading continues up to the limit, because a paused connection does not notice when its client leaves.
        """
        if len(self._ahead.requests) >= self._settings.max_pipelined:
            limit = self._settings.max_pipelined
            self._services.bodies.release(request)
            return Refusal.bad_request(
                f"more than {limit} requests sent ahead: wait for responses before sending more",
                code="pipeline_too_long",
            )
        self._ahead.add(request)
        if self._is_full and self._transport is not None:
            self._transport.pause_reading()
        return None

    @property
    def _is_full(self) -> bool:
        """Whether enough is kept to pause reading: of pipelined requests, or of an upload."""
        ahead, exchange = self._ahead, self._exchange
        if isinstance(exchange, UploadExchange) and exchange.is_full:
            return True
        return len(ahead.requests) >= self._settings.max_pipelined or ahead.body_bytes > READ_AHEAD_BYTES

    def _serve(self, request: Request, now: float) -> None:
        if self._transport is None or self._transport.is_closing():
            self._services.bodies.release(request)
            return
        try:
            if request.method == b"POST":
                self._exchange = exchange = Exchange(self._services, self, request)
                exchange.start(now)
            else:
                self._services.bodies.release(request)
                for part in local.respond(self._services, request):
                    self.write(part)
                self.exchange_done(request.keep_alive, now)
        except Exception:
            # llhttp would report it as the client's error, and the exchange would stay open forever.
            log.exception("a request could not be handled")
            self.abort()
            self._services.bodies.release(request)

    def exchange_done(self, keep_alive: bool, now: float) -> None:
        """The response was written: continue with the next request, or close."""
        self._exchange = None
        if self._transport is None or self._transport.is_closing():
            return
        self._reader.begun_at = now
        if self._reader.is_uploading:
            self._discard_rest()
        elif not keep_alive or self._services.shutdown.is_draining:
            self._transport.close()
        elif self._ahead.requests:
            # From the loop, not from here: many pipelined requests must not deepen the stack.
            if not self.is_paused:
                self._services.loop.call_soon(self._serve_next)
        elif self._rejected is not None:
            self._write_rejection(self._rejected)
        elif self._reader.owes_continue:
            self.may_continue()

    def _serve_next(self) -> None:
        if self._exchange is not None or not self._ahead.requests or self._transport is None:
            return
        request = self._ahead.next()
        if not (self._ahead.requests or self._rejected or self._backlog.data or self._backlog.waits):
            self._transport.resume_reading()
        self._serve(request, self._services.now())

    def pause_reading(self) -> None:
        """The endpoint reads an upload more slowly than the client sends it."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        transport = self._transport
        if (
            transport is not None
            and not transport.is_closing()
            and not (self._backlog.waits or self._is_full)
        ):
            transport.resume_reading()

    # -- writing

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def writer(self) -> Callable[[bytes], None] | None:
        """A write function without checks, valid while the exchange is in progress."""
        return self._transport.write if self._transport is not None else None

    def refuse(self, refusal: Refusal, request: Request, request_id: bytes) -> None:
        self.write(
            refusals.refused(
                refusal,
                request.target,
                request_id=request_id,
                keep_alive=request.keep_alive,
                lines=request.response_lines,
            )
        )

    def abort(self) -> None:
        """Close the connection immediately; within a response with a reset, because a response without a
        length would otherwise look complete."""
        if self._transport is not None:
            if self._exchange is not None:
                sock = self._transport.get_extra_info("socket")
                if sock is not None:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
        self._gone()

    def _reject(self, refusal: Refusal) -> None:
        """Reject what the client sent, after the responses to earlier requests; then close."""
        if self._rejected is not None:
            return
        self._rejected = refusal
        self._take_unread()
        self._reader.drop_body()
        if self._exchange is None and not self._ahead.requests:
            self._write_rejection(refusal)

    def _discard_rest(self) -> None:
        """Discard the rest of an upload: after an immediate close, the client might not read its response."""
        self._rejected = unreadable.unfinished()
        self._take_unread()
        self._reader.drop_body()
        if self._transport is not None:
            if self._peer.scheme != b"https":  # TLS has no end of one direction
                self._transport.write_eof()
            if not self._backlog.waits:
                self._transport.resume_reading()

    def _write_rejection(self, refusal: Refusal) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        reader = self._reader
        self._services.recorder.rejected(refusal, self.address, reader.target, self._services.now())
        self.write(refusals.refused(refusal, reader.target, keep_alive=False, lines=reader.response_lines))
        if self._peer.scheme != b"https":  # TLS has no end of one direction
            self._transport.write_eof()
        if not self._backlog.waits:
            self._transport.resume_reading()
        reader.begun_at = self._services.now()

    # -- time

    def sweep(self, now: float) -> None:
        """Enforce timeouts; called about once a second."""
        settings, reader = self._settings, self._reader
        age_s = now - reader.begun_at
        if self._transport is None:
            return
        if self._exchange is not None:
            self._exchange.sweep(now)
        elif self._rejected is not None:
            if age_s > LINGER_S:
                self._transport.abort()
        elif reader.is_amid_request:
            # The allowance grows with the body: one byte per second, or per chunk, gains next to nothing.
            allowed_s = settings.receive_timeout_s + reader.body_bytes / settings.min_body_bytes_per_s
            if age_s > allowed_s:
                self._reject(too_slow(age_s))
            elif age_s > settings.receive_timeout_s and reader.body_bytes and self._services.bodies.is_short:
                # When memory is short, long bodies get no extra time: a few slow clients would keep all
                # others from sending theirs.
                self._reject(self._services.bodies.refusal())
        elif self._transport.is_closing() or self._ahead.requests:
            if age_s > settings.keep_alive_s:
                self._transport.abort()  # it does not read its response
        elif age_s > settings.keep_alive_s or self._services.shutdown.is_draining:
            self._transport.close()

    def unused_since(self, now: float) -> float | None:
        """Since when it has been idle, or receiving a request very slowly; None if neither."""
        transport, reader = self._transport, self._reader
        if self._exchange is not None or self._ahead.requests or self._rejected is not None:
            return None
        if self._backlog.data or self._backlog.waits:
            return None
        if transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return None
        if not reader.is_amid_request:
            return reader.begun_at
        age_s = now - reader.begun_at
        is_slow = reader.body_bytes < age_s * self._settings.min_body_bytes_per_s
        return reader.begun_at if is_slow and age_s > limits.SLOW_S else None

    def displaced(self) -> str:
        """Close the connection to admit another; returns the address that it is counted under."""
        self.abort()
        return self._counted_as

    def close_if_idle(self) -> None:
        idle = self._exchange is None and not self._ahead.requests and not self._reader.is_amid_request
        if idle and self._transport is not None:
            self._transport.close()
