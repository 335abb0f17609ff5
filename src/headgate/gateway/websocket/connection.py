"""The client's side of a WebSocket, which takes over the connection of the request that opened it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headgate.gateway import authenticating, refusals
from headgate.gateway.exchange import Exchange
from headgate.gateway.websocket.exchange import SessionExchange
from headgate.gateway.websocket.frames import GOING_AWAY, POLICY

if TYPE_CHECKING:
    from headgate.gateway.clients import Clients
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.gateway.settings import GatewaySettings
    from headgate.requests.refusal import Refusal

_RESET: Final = struct.pack("ii", 1, 0)
GOODBYE_S: Final = 1.0
"""How long what a client still sends is read after the end, until it closes the connection itself."""
LINGER_S: Final = 10.0
"""How long a client may take to read the end."""


class WebSocketConnection(asyncio.Protocol):
    """One WebSocket, from its request to its end."""

    def __init__(
        self,
        services: Services,
        clients: Clients,
        transport: asyncio.Transport,
        request: Request,
        counted_as: str,
    ) -> None:
        self._services = services
        self._clients = clients
        self._transport: asyncio.Transport | None = transport
        self._counted_as = counted_as
        self._request = request
        self._session: SessionExchange | None = SessionExchange(services, self, request)
        self._ended_at = 0.0
        self.is_paused = False
        """Whether writing is paused because the client reads slowly."""

    def start(self) -> None:
        """Begin, once the transport has this protocol."""
        if self._session is not None:
            self._session.start(self._request.arrived_at)

    # -- asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        if self._session is not None:
            self._session.receive(data)

    def eof_received(self) -> bool:
        """A client that sends nothing more has left, or has read the end. Returning False makes the loop
        close the connection once all is written."""
        if self._session is not None:
            self._gone()
            if self._transport is not None:
                self._transport.abort()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._clients.left(self, self._counted_as)
        self._transport = None
        self._gone()

    def pause_writing(self) -> None:
        self.is_paused = True
        if self._session is not None:
            self._session.pause()

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._session is not None:
            self._session.resume()

    def _gone(self) -> None:
        session, self._session = self._session, None
        if session is not None and not session.life.is_over:
            session.client_gone()

    # -- the client of the exchange

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def writer(self) -> Callable[[bytes], None] | None:
        return self._transport.write if self._transport is not None else None

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def refuse(self, refusal: Refusal, request: Request, request_id: bytes) -> None:
        lines = request.response_lines
        self.write(
            refusals.refused(refusal, request.target, request_id=request_id, keep_alive=False, lines=lines)
        )

    def exchange_done(self, keep_alive: bool, now: float) -> None:
        """The session is over, or was refused. What the client sends until it has read why is discarded: an
        immediate close would cause a reset, which might overtake that."""
        session, self._session = self._session, None
        self._ended_at = now
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._request.parsed.peer.scheme != b"https":  # TLS has no end of one direction
            transport.write_eof()
        elif session is None or not session.is_open:
            transport.close()
            return
        transport.resume_reading()

    def abort(self) -> None:
        """Close the connection: an open session with a close frame, unless its client reads nothing."""
        session = self._session
        if session is not None and session.is_open:
            now = self._services.now()
            if not session.life.is_over:
                session.close(GOING_AWAY, "the gateway is shutting down", now)
                if self._transport is not None:
                    self._transport.close()
                return
            if not self.is_paused:
                self.write(session.last_frame())
                self.exchange_done(False, now)
                return
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
        self._gone()

    # -- one of the clients

    @property
    def address(self) -> str:
        return self._request.parsed.peer.address

    @property
    def exchange(self) -> Exchange | None:
        return self._session

    @property
    def waiting(self) -> int:
        return 0

    @property
    def reading_since(self) -> float | None:
        return None

    def change(self, settings: GatewaySettings) -> None:
        """Settings or credentials have changed: end the session of a client that may no longer have it."""
        session = self._session
        if session is not None and session.is_open and (why := self._why_over(session)):
            session.end(POLICY, why, self._services.now())

    def _why_over(self, session: SessionExchange) -> str:
        """Why the client may no longer have its session; empty if it may."""
        model = session.life.decision.model
        return authenticating.why_over(self._services, self._request.parsed.identity, model)

    def sweep(self, now: float) -> None:
        """Called about once a second."""
        session = self._session
        if session is None:
            self._linger(now - self._ended_at)
            return
        # Each time: what changed while it was queued or opened ended nothing.
        if session.is_open and (why := self._why_over(session)):
            session.end(POLICY, why, now)
        else:
            session.sweep(now)

    def _linger(self, over_s: float) -> None:
        transport = self._transport
        if transport is None:
            return
        if over_s > LINGER_S:
            transport.abort()
        elif over_s > GOODBYE_S and not transport.is_closing():
            transport.close()

    def unused_since(self, now: float) -> float | None:
        return self._ended_at if self._session is None else None

    def displaced(self) -> str:
        self.abort()
        return self._counted_as

    def close_if_idle(self) -> None:
        """Only a session that is over is without a request."""
        if self._session is None and self._transport is not None:
            self._transport.close()
