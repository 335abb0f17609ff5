"""A client connection to a listener of a Gateway: one request after the other, bodies as they arrive.

What becomes of a request is up to its `Serving`, which `deciding` makes from the head. This module enforces
the limits on sizes, counts and times, as `listener` does for the gateway's own port.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol, cast

from headgate import loop_turns
from headgate.dataplane.credentials import certificates
from headgate.dataplane.trust import Peer, counted_as
from headgate.gateway import refusals, unreadable
from headgate.gateway.gateway_api import head as heads
from headgate.gateway.gateway_api.arriving import READ_AHEAD_BYTES, Incoming
from headgate.gateway.gateway_api.framing import Body, FramingError
from headgate.gateway.gateway_api.head import Head
from headgate.http2.frames import PREFACE
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.gateway_api.shared import Shared
    from headgate.gateway.request import Request
    from headgate.gateway.settings import GatewaySettings
    from headgate.routing.gateway_api import Place

log = logging.getLogger(__name__)

LINGER_S: Final = 2.0
"""How long the input of a rejected client is discarded: after an immediate close it might not read why."""
_RESET: Final = struct.pack("ii", 1, 0)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_PRI: Final = PREFACE[: PREFACE.index(_HEAD_END) + 4]
"""The beginning of HTTP/2, which looks like a head."""


class Serving(Protocol):
    """One request, from its head to the end of its response."""

    @property
    def exchange(self) -> Exchange | None:
        """Its exchange with a pool, if it has one."""
        ...

    def start(self, now: float) -> None: ...
    def body(self, data: bytes) -> None:
        """Part of the body arrived."""

    def body_ended(self, now: float) -> None: ...
    def client_gone(self) -> None: ...
    def ended(self) -> None:
        """Its response was written."""

    def pause(self) -> None:
        """The client reads slowly."""

    def resume(self) -> None: ...
    def sweep(self, now: float) -> None:
        """About a second has passed."""


class EntryConnection:
    """One client connection, from accept to close. An asyncio protocol by its methods."""

    __slots__ = (
        "_clients",
        "_counted_as",
        "_decide",
        "_has_written",
        "_incoming",
        "_rejected",
        "_serving",
        "_settings",
        "_transport",
        "is_paused",
        "is_tunnel",
        "peer",
        "place",
        "shared",
    )

    peer: Peer

    def __init__(
        self, shared: Shared, place: Place, decide: Callable[[EntryConnection, Head, float], Serving]
    ) -> None:
        self.shared = shared
        self.place = place
        self._decide = decide
        self._clients = shared.clients
        self._settings = shared.services.settings.clients
        self._transport: asyncio.Transport | None = None
        self._counted_as = ""
        """The address that the client is counted under; empty if addresses are not counted."""
        self._incoming = Incoming(shared.services.bodies, shared.services.now())
        self._serving: Serving | None = None
        self._rejected = False
        self._has_written = False
        """Whether anything of the response to the request was written."""
        self.is_paused = False
        """Whether writing is paused because the client reads slowly."""
        self.is_tunnel = False
        """Whether the connection was upgraded: all further data is its serving's."""

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._settings.write_buffer_bytes)
        address, policy = transport.get_extra_info("peername"), self.shared.services.policy
        scheme = b"http" if transport.get_extra_info("ssl_object") is None else b"https"
        self.peer = Peer(str(address[0]) if isinstance(address, tuple) else "", policy.trusted, scheme)
        self.peer.certificate = certificates.of(transport)
        if self._clients.counts_addresses and not self.peer.is_trusted:
            self._counted_as = counted_as(self.peer.address)
        refusal = self._clients.admit(self, self._counted_as)
        if refusal is not None:
            may_linger = self._clients.may_linger(self)
            self._reject(refusal)
            if not may_linger and self._transport is not None:
                self._transport.close()

    def data_received(self, data: bytes) -> None:
        uploads, incoming = self.shared.services.turns.uploads, self._incoming
        if self._rejected:
            return
        if self.is_tunnel:
            self._take(data, False)
            return
        if incoming.unread or incoming.waits:
            self._leave(incoming.unread + data)  # it arrived while reading was being paused
            return
        if counted := incoming.counted_bytes:
            self._take(data[:counted], False)
            data = data[counted:]
        if data and len(data) <= loop_turns.AT_ONCE_BYTES and uploads.has_time:
            began = perf_counter()
            self._take(data, False)
            uploads.spent(perf_counter() - began)
        elif data:
            rest = uploads.read(data, self._take) if uploads.has_time else data
            if rest and not self._rejected:
                self._leave(rest)
                self._wait_for_turn()

    def _leave(self, data: bytes) -> None:
        """Keep data for a later turn."""
        if not self._incoming.leave(data):
            self._reject(self.shared.services.bodies.refusal())

    def _wait_for_turn(self) -> None:
        """Chunks of one byte and pipelined requests cost far more than their length: all connections share
        the time of the event loop."""
        incoming, transport = self._incoming, self._transport
        if incoming.waits or transport is None or transport.is_closing():
            return
        incoming.waits = True
        if not incoming.is_paused:
            transport.pause_reading()
        self.shared.services.turns.uploads.wait(self._read_on)

    def _read_on(self) -> bool:
        incoming, transport = self._incoming, self._transport
        incoming.waits = False
        if transport is None or transport.is_closing() or incoming.is_paused:
            return False
        transport.resume_reading()
        data = incoming.unread
        incoming.leave(b"")
        if data:
            self.data_received(data)
        return len(data) >= loop_turns.LONG_READ_BYTES

    def _take(self, data: bytes, more: bool) -> bool:
        """Take a piece of data. Returns whether further ones are taken."""
        try:
            self._receive(data)
        except FramingError as error:
            self._reject(unreadable.invalid(error))
        except Exception:
            log.exception("a request to a Gateway could not be handled")
            self.abort()
        return not self._rejected and self._transport is not None and not self._transport.is_closing()

    def _receive(self, data: bytes) -> None:
        incoming = self._incoming
        while data and not self._rejected and self._transport is not None:
            if self._transport.is_closing():
                return  # the request before was the last
            if self.is_tunnel and self._serving is not None:
                self._serving.body(data)
                return
            if incoming.body is not None and not incoming.body.is_complete:
                data = self._receive_body(incoming.body, data)
            elif self._serving is not None or incoming.body is not None or self.is_paused:
                if not incoming.keep(incoming.ahead + data):
                    self._reject(self.shared.services.bodies.refusal())
                elif len(incoming.ahead) > READ_AHEAD_BYTES:
                    self.pause_body()
                return
            else:
                data = self._receive_head(data)

    def _receive_head(self, data: bytes) -> bytes:
        """Returns what follows the head, if it is complete."""
        incoming, settings = self._incoming, self._settings
        if not incoming.ahead:
            data = data.lstrip(b"\r\n")
            incoming.begun_at = self.shared.services.now()
        searched = max(len(incoming.ahead) - 3, 0)
        incoming.keep(incoming.ahead + data)
        end = incoming.ahead.find(_HEAD_END, searched)
        if (end if end >= 0 else len(incoming.ahead)) > settings.max_head_bytes:
            self._reject(unreadable.too_large("head", settings.max_head_bytes, 431))
            return b""
        if end < 0:
            return b""
        text, rest = incoming.ahead[: end + 4], incoming.ahead[end + 4 :]
        incoming.keep(b"")
        if text == _PRI and self._goes_on_with_http2(text + rest):
            return b""
        found = heads.read(text, heads.Limits(settings.max_head_bytes, settings.max_headers))
        if isinstance(found, Refusal):
            self._reject(found)
            return b""
        self._begin(found)
        if self._serving is None and rest and incoming.body is None:
            # Answered at once: others have their turn before the next request of this client.
            incoming.body = Body(0, is_chunked=False)  # a complete one: what follows waits
            if not incoming.keep(rest):
                self._reject(self.shared.services.bodies.refusal())
            else:
                self._continue()
            return b""
        return rest

    def _goes_on_with_http2(self, data: bytes) -> bool:
        """Let HTTP/2 have a connection without TLS that begins with its preface ("prior knowledge")."""
        transport = self._transport
        if transport is None or transport.get_extra_info("socket") is None or self.scheme == b"https":
            return False
        self._clients.left(self, self._counted_as)
        self._transport = None
        shared, place, decide = self.shared, self.place, self._decide

        def make() -> asyncio.Protocol:
            return cast(asyncio.Protocol, EntryConnection(shared, place, decide))

        self._clients.http2.take_over(transport, make, data)
        return True

    def _begin(self, head: Head) -> None:
        services, now = self.shared.services, self.shared.services.now()
        self._incoming.body = body = Body(head.length, is_chunked=head.is_chunked)
        head.keep_alive = head.keep_alive and not services.shutdown.is_leaving
        self._has_written = False
        if head.expects_continue and not body.is_complete and self._transport is not None:
            self._transport.write(_CONTINUE)
        self._serving = serving = self._decide(self, head, now)
        serving.start(now)
        if body.is_complete and self._serving is serving:
            serving.body_ended(now)

    def _receive_body(self, body: Body, data: bytes) -> bytes:
        """Returns what follows the body, if it is complete."""
        serving = self._serving
        payload = body.feed(data)
        if payload and serving is not None:
            serving.body(payload)
        if body.is_complete and self._serving is serving and serving is not None:
            serving.body_ended(self.shared.services.now())
        return body.rest if body.is_complete else b""

    def eof_received(self) -> bool:
        """Treat a client that stops sending as gone: a closed connection looks the same, and its backend must
        stop work. Data already written is still sent."""
        transport, is_serving = self._transport, self._serving is not None
        self._gone()
        if transport is not None and is_serving and not self.is_tunnel:
            transport.abort()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._clients.left(self, self._counted_as)
        self._gone()
        self._transport = None

    def pause_writing(self) -> None:
        self.is_paused = True
        if self._serving is not None:
            self._serving.pause()

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._serving is not None:
            self._serving.resume()
        elif not self._rejected and self._transport is not None and not self._transport.is_closing():
            self._continue()

    def _gone(self) -> None:
        serving, self._serving = self._serving, None
        self._incoming.drop()
        if serving is not None:
            serving.client_gone()

    # -- for the request being served

    def write(self, data: bytes) -> None:
        self._has_written = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def writer(self) -> Callable[[bytes], None] | None:
        """A write function without checks, valid while a request is served."""
        return self._transport.write if self._transport is not None else None

    def refuse(self, refusal: Refusal, request: Request, request_id: bytes) -> None:
        self.write(
            refusals.refused(refusal, request.target, request_id=request_id, keep_alive=request.keep_alive)
        )

    def abort(self) -> None:
        """Close the connection with a reset: a response without a length would otherwise look complete."""
        transport = self._transport
        if transport is not None:
            sock = transport.get_extra_info("socket")
            if sock is not None and self._serving is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()
        self._gone()

    def close(self) -> None:
        """Close the connection once everything was written: its request was its last."""
        self._serving = None
        self._incoming.begun_at = self.shared.services.now()
        if self._transport is not None:
            self._transport.close()

    def pause_body(self) -> None:
        """Read no more for now."""
        incoming, transport = self._incoming, self._transport
        if transport is None or incoming.is_paused or transport.is_closing():
            return
        incoming.is_paused = True
        if not incoming.waits:
            transport.pause_reading()

    def resume_body(self) -> None:
        incoming, transport = self._incoming, self._transport
        if transport is None or not incoming.is_paused or transport.is_closing():
            return
        incoming.is_paused = False
        if incoming.unread:
            incoming.waits = True
            self.shared.services.turns.uploads.wait(self._read_on)
        elif not incoming.waits:
            transport.resume_reading()

    @property
    def scheme(self) -> bytes:
        """The scheme of the connection, http or https."""
        is_tls = self._transport is not None and self._transport.get_extra_info("ssl_object") is not None
        return b"https" if is_tls else b"http"

    @property
    def has_whole_body(self) -> bool:
        """Whether the body of the request has arrived, so that another request may follow."""
        return self._incoming.body is None or self._incoming.body.is_complete

    def exchange_done(self, keep_alive: bool, now: float) -> None:
        """The response was written: continue with the next request, or close."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.ended()
        transport, incoming = self._transport, self._incoming
        incoming.begun_at = now
        if transport is None or transport.is_closing():
            return
        if not keep_alive or not self.has_whole_body or self.shared.services.shutdown.is_draining:
            self._linger() if not self.has_whole_body else transport.close()
            return
        if self.is_paused:
            self.pause_body()  # further requests wait until it has read the responses to these
        else:
            self._continue()

    def _continue(self) -> None:
        """Read the next request."""
        incoming = self._incoming
        # From a later turn of the loop: many pipelined requests must neither deepen the stack nor hold it up.
        if incoming.ahead or incoming.is_paused:
            self.shared.services.loop.call_soon(self._next)
        else:
            incoming.body = None

    def _next(self) -> None:
        """Read what was sent ahead."""
        incoming = self._incoming
        if self._serving is not None or self._rejected or self._transport is None or self.is_paused:
            return
        incoming.body = None
        data = incoming.ahead
        incoming.keep(b"")
        self.resume_body()
        if data and not incoming.unread:
            self.data_received(data)
        elif data:
            self._leave(data + incoming.unread)

    def _linger(self) -> None:
        """Close after the response, but not before the client may have read it: it is still sending."""
        self._rejected = True
        self._incoming.begun_at = self.shared.services.now()
        if self._transport is not None:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self.resume_body()

    def _reject(self, refusal: Refusal) -> None:
        """Reject what the client sent, and close."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.client_gone()
        self._incoming.drop()
        recorder = self.shared.services.recorder
        recorder.rejected(refusal, self.peer.address, b"", self.shared.services.now())
        if serving is None or not self._has_written:
            self.write(refusals.refused(refusal, b"", keep_alive=False))
        self._linger()

    # -- for `Clients`

    @property
    def exchange(self) -> Exchange | None:
        return self._serving.exchange if self._serving is not None else None

    @property
    def waiting(self) -> int:
        return 0

    @property
    def address(self) -> str:
        """The address of the peer, without its port."""
        return self.peer.address

    @property
    def _is_reading(self) -> bool:
        """Whether a request is arriving."""
        return bool(self._incoming.ahead or self._incoming.unread) or not self.has_whole_body

    @property
    def reading_since(self) -> float | None:
        return self._incoming.begun_at if self._serving is None and self._is_reading else None

    def change(self, settings: GatewaySettings) -> None:
        self._settings = settings.clients

    def sweep(self, now: float) -> None:
        """Enforce timeouts; called about once a second."""
        if self._transport is None:
            return
        settings, incoming = self._settings, self._incoming
        age_s = now - incoming.begun_at
        if self._rejected:
            if age_s > LINGER_S:
                self._transport.abort()
            return
        if self._serving is not None:
            if incoming.body is not None and not incoming.body.is_complete and not incoming.is_paused:
                allowed_s = settings.receive_timeout_s + incoming.body.size / settings.min_body_bytes_per_s
                if age_s > allowed_s and not self.is_tunnel:
                    self._reject(_too_slow(age_s))
                    return
            self._serving.sweep(now)
        elif self._transport.is_closing():
            if age_s > settings.keep_alive_s:
                self._transport.abort()  # it does not read its response
        elif incoming.ahead or incoming.unread:
            if age_s > settings.receive_timeout_s:
                self._reject(_too_slow(age_s))
        elif age_s > settings.keep_alive_s or self.shared.services.shutdown.is_draining:
            self._transport.close()

    def unused_since(self, now: float) -> float | None:
        transport = self._transport
        if self._serving is not None or self._rejected or transport is None or transport.is_closing():
            return None
        return None if transport.get_write_buffer_size() else self._incoming.begun_at

    def displaced(self) -> str:
        self.abort()
        return self._counted_as

    def close_if_idle(self) -> None:
        if self._serving is None and not self._incoming.ahead and self._transport is not None:
            self._transport.close()


def _too_slow(age_s: float) -> Refusal:
    return Refusal.bad_request(
        f"the request was not complete after {age_s:.0f} s: send it faster",
        code="request_timeout",
        status=408,
    )
