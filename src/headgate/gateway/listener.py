"""A client's connection: bytes in, complete requests to exchanges, answers out.

Requests of one connection are served one after the other; those that a client sends ahead wait here,
a bounded number of them. Limits on counts and times are kept in this file, those on sizes in the reader.
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
from headgate.gateway import limits, local, refusals
from headgate.gateway.exchange import Exchange
from headgate.gateway.reader import RequestReader
from headgate.gateway.trust import Peer
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.clients import Clients
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.gateway.settings import GatewaySettings

log = logging.getLogger(__name__)

LINGER_S: Final = 2.0
"""How long a rejected client may go on sending, unheard: cut off at once, it might not read why."""

READ_AHEAD_BYTES: Final = 64 * 1024
"""Past this much in requests that wait behind a running one, no more are read."""

_RESET: Final = struct.pack("ii", 1, 0)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class RequestsAhead:
    """Requests that a client sent before the response to an earlier one was complete, the oldest first."""

    __slots__ = ("body_bytes", "requests")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.body_bytes = 0

    def add(self, request: Request) -> None:
        self.requests.append(request)
        self.body_bytes += len(request.body)

    def next(self) -> Request:
        """Remove the oldest."""
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
        """The address that the client counts under, where addresses are counted."""
        self._exchange: Exchange | None = None
        self._ahead = RequestsAhead()
        self._rejected: Refusal | None = None
        self._backlog = turns.Backlog()
        self.is_paused = False
        """Whether the client reads too slowly for more to be written."""

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._settings.write_buffer_bytes)
        address = transport.get_extra_info("peername")
        peer = Peer(str(address[0]) if isinstance(address, tuple) else "", self._services.policy.trusted)
        self._peer = peer
        self._reader = RequestReader(self._services, self, peer)
        if self._clients.counts_addresses and not peer.is_trusted:
            self._counted_as = limits.counted_as(peer.address)
        refusal = self._clients.admit(self, self._counted_as)
        if refusal is not None:
            self._turn_away(refusal)

    def _turn_away(self, refusal: Refusal) -> None:
        """Says why, and closes. What the client sends is not read, but a few are listened to for a while:
        where it is sending already, a close at once is a reset, which might overtake the answer."""
        may_linger = self._clients.may_linger(self)
        self._rejected = refusal
        self._answer_rejection(refusal)
        if not may_linger and self._transport is not None:
            self._transport.close()

    def change(self, settings: GatewaySettings) -> None:
        """Goes on by these settings; whether its peer is trusted was decided when it connected."""
        self._settings = settings.clients
        self._reader.change(settings, self._services.policy)

    @property
    def address(self) -> str:
        """Of who is connected, without its port: a client, or a proxy before it."""
        return self._peer.address

    @property
    def exchange(self) -> Exchange | None:
        """The request that is being served."""
        return self._exchange

    @property
    def waiting(self) -> int:
        """Requests that the client sent ahead."""
        return len(self._ahead.requests)

    @property
    def reading_since(self) -> float | None:
        """Since when a request has been arriving; None if none is."""
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
                self._reject(refusal)
            uploads.spent(perf_counter() - began)

    def _receive_in_turns(self, data: bytes, uploads: turns.Turns) -> None:
        """Data that may take long to parse, and behind which more may be waiting to be read; or that comes in
        a turn in which much was parsed."""
        backlog = self._backlog
        if self._rejected is not None:
            pass
        elif backlog.data or not uploads.has_time:
            self._leave_unread(data)  # where some was left, this was on its way as reading was paused
        else:
            rest = self._rest_of_counted_body(data, uploads)
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
        """Takes what belongs to a body of known length, at which nobody looks; returns what follows it."""
        left = self._reader.body_left
        if not left:
            return data
        began = perf_counter()
        rest = data[left:] if self._take_piece(data[:left], False) else b""
        uploads.spent(perf_counter() - began)
        return rest

    def _request_with_body(self, data: bytes, uploads: turns.Turns) -> bytes:
        """Takes a request whose head is short, and its body of known length; returns what follows. Most that
        is longer than a few kilobytes comes like this, and pieces of it would be one copy more each."""
        began = perf_counter()
        read, refusal = self._reader.begin(data)
        if refusal is not None:
            self._reject(refusal)
        uploads.spent(perf_counter() - began)
        return b"" if refusal is not None else data[read:]

    def _leave_unread(self, data: bytes) -> None:
        """Keeps data for a later turn. It counts as held, or clients could have as much of it as they are."""
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
        refusal = self._reader.feed(data)
        if refusal is not None:
            self._reject(refusal)
        return refusal is None

    def _wait_to_read(self) -> None:
        """Long uploads are read by turns. A rejected client's are too, though nobody looks at the bytes."""
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
        data = self._take_unread()
        if self._transport is None or self._transport.is_closing():
            return False
        if data:
            self._receive_in_turns(data, self._services.turns.uploads)
        if self._backlog.waits or (self._rejected is None and self._is_full):
            return False
        self._transport.resume_reading()
        return not data or len(data) >= turns.LONG_READ_BYTES

    def take(self, request: Request) -> Refusal | None:
        """Serves a request, or keeps it for later; says why if there is no room."""
        if self._exchange is None and not self._ahead.requests and not self.is_paused:
            self._serve(request, request.arrived_at)
            return None
        return self._wait(request)

    def may_continue(self) -> None:
        """Tells a client that asks first to send its body, as soon as the answers before it are out: amid
        one of them, an interim response would be taken for a part of it."""
        if self._exchange is None and not self._ahead.requests:
            self._reader.owes_continue = False
            self.write(_CONTINUE)

    def eof_received(self) -> bool:
        """A client that stops sending is taken to be gone, as nginx and Envoy do: one that has closed its
        connection looks the same, and its endpoint must not work on for nobody. What is written leaves.

        Returns whether the connection is closed later: thousands of clients may go at once."""
        transport = self._transport
        if self._exchange is not None and transport is not None:
            transport.abort()
        if transport is None or transport.is_closing():
            self._gone()
            return False
        self._gone()
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
        """Keeps a request that the client sent ahead.

        Reading goes on as long as there is room: while it pauses, a client that leaves is not noticed.
        """
        if len(self._ahead.requests) >= self._settings.max_pipelined:
            limit = self._settings.max_pipelined
            self._services.bodies.release(request)
            return Refusal.bad_request(
                f"more than {limit} requests sent ahead: wait for answers before more are sent",
                code="pipeline_too_long",
            )
        self._ahead.add(request)
        if self._is_full and self._transport is not None:
            self._transport.pause_reading()
        return None

    @property
    def _is_full(self) -> bool:
        """Whether no more requests are read ahead."""
        ahead = self._ahead
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
                for part in local.answer(self._services, request):
                    self.write(part)
                self.exchange_done(request.keep_alive, now)
        except Exception:
            # llhttp would take it for a fault of the client, and the exchange would stay open for ever.
            log.exception("a request could not be handled")
            self.abort()
            self._services.bodies.release(request)

    def exchange_done(self, keep_alive: bool, now: float) -> None:
        """The answer is written: go on with the next request, or close."""
        self._exchange = None
        if self._transport is None or self._transport.is_closing():
            return
        self._reader.begun_at = now
        if not keep_alive or self._services.shutdown.is_draining:
            self._transport.close()
        elif self._ahead.requests:
            # From the loop, not from here: a client that sends many requests ahead must not deepen the stack.
            if not self.is_paused:
                self._services.loop.call_soon(self._serve_next)
        elif self._rejected is not None:
            self._answer_rejection(self._rejected)
        elif self._reader.owes_continue:
            self.may_continue()

    def _serve_next(self) -> None:
        if self._exchange is not None or not self._ahead.requests or self._transport is None:
            return
        request = self._ahead.next()
        if not (self._ahead.requests or self._rejected or self._backlog.data or self._backlog.waits):
            self._transport.resume_reading()
        self._serve(request, self._services.now())

    # -- writing

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def writer(self) -> Callable[[bytes], None] | None:
        """Writes to the client for as long as an exchange runs, without asking whether it is still there."""
        return self._transport.write if self._transport is not None else None

    def refuse(self, refusal: Refusal, request: Request, request_id: bytes) -> None:
        self.write(
            refusals.refused(
                refusal,
                request.target,
                request_id=request_id,
                keep_alive=request.keep_alive,
                lines=request.answer_lines,
            )
        )

    def abort(self) -> None:
        """Ends the connection at once; amid an answer by a reset, since an answer without a length would
        otherwise look complete."""
        if self._transport is not None:
            if self._exchange is not None:
                sock = self._transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
        self._gone()

    def _reject(self, refusal: Refusal) -> None:
        """The bytes cannot be served: answered when the requests before them are, then closed."""
        self._rejected = refusal
        self._take_unread()
        self._reader.drop_body()
        if self._exchange is None and not self._ahead.requests:
            self._answer_rejection(refusal)

    def _answer_rejection(self, refusal: Refusal) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        reader = self._reader
        self._services.recorder.rejected(refusal, self.address, reader.target, self._services.now())
        self.write(refusals.refused(refusal, reader.target, keep_alive=False, lines=reader.answer_lines))
        self._transport.write_eof()
        if not self._backlog.waits:
            self._transport.resume_reading()
        reader.begun_at = self._services.now()

    # -- time

    def sweep(self, now: float) -> None:
        """Ends what has taken too long; called about once a second."""
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
            # Bodies of chunks of one byte, or one byte a second, earn their client no time worth having.
            allowed_s = settings.receive_timeout_s + reader.body_bytes / settings.min_body_bytes_per_s
            if age_s > allowed_s:
                self._reject(_too_slow(age_s))
            elif age_s > settings.receive_timeout_s and reader.body_bytes and self._services.bodies.is_short:
                # While memory is short, long bodies have no more time than others: a few clients that send
                # slowly would keep everybody else from sending any.
                self._reject(self._services.bodies.refusal())
        elif self._transport.is_closing() or self._ahead.requests:
            if age_s > settings.keep_alive_s:
                self._transport.abort()  # it does not read what was written for it
        elif age_s > settings.keep_alive_s or self._services.shutdown.is_draining:
            self._transport.close()

    def unused_since(self, now: float) -> float | None:
        """Since when it has had no request, or one that arrives very slowly; None if it is of use."""
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
        """Ends the connection for another one; returns the address that it is counted under."""
        self.abort()
        return self._counted_as

    def close_if_idle(self) -> None:
        idle = self._exchange is None and not self._ahead.requests and not self._reader.is_amid_request
        if idle and self._transport is not None:
            self._transport.close()


def _too_slow(age_s: float) -> Refusal:
    return Refusal.bad_request(
        f"the request was not complete after {age_s:.0f} s: send it faster, or raise "
        f"clients.receive_timeout_s of the gateway, and for long bodies lower clients.min_body_bytes_per_s",
        code="request_timeout",
        status=408,
    )
