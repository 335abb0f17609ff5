"""A WebSocket between a client and an endpoint: an exchange whose response is everything that follows 101.

In its own file, as a subclass of a compiled class is compiled too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import httptools

from headgate.gateway.exchange import Client, Exchange
from headgate.gateway.response import Response
from headgate.gateway.websocket.frames import BAD_GATEWAY, GOING_AWAY, TRY_AGAIN_LATER, Frames, close_frame
from headgate.requests import effects, sessions, states, way
from headgate.requests.limits import in_sessions
from headgate.requests.responses import SWITCHING
from headgate.requests.sessions import SessionBody

if TYPE_CHECKING:
    from headgate.flow.limits import RouteLimit
    from headgate.gateway.continuation import Continuation
    from headgate.gateway.fast_path import FastPath
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.client import Header
    from headgate.requests.reported import Usage

_LENGTH: Final = b"\r\ncontent-length: 0\r\n\r\n"
_UPGRADE: Final = b"connection: Upgrade\r\nupgrade: websocket\r\n"
_EXTENSIONS: Final = re.compile(rb"\r\nsec-websocket-extensions: [^\r\n]*")
"""Not offered to endpoints: in compressed frames, the gateway could read no counts."""
MAX_EARLY_BYTES: Final = 64 * 1024


class SessionClient(Client, Protocol):
    """The client's side."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Uplink:
    """The client's bytes on their way to the endpoint, which come no faster than it reads."""

    __slots__ = ("_client",)

    def __init__(self, client: SessionClient) -> None:
        self._client = client

    @property
    def is_done(self) -> bool:
        return False

    def pause(self) -> None:
        self._client.pause_reading()

    def resume(self) -> None:
        self._client.resume_reading()

    def drop(self) -> None:
        """The connection to the endpoint has ended."""


class SessionExchange(Exchange):
    """Decided, queued, retried and settled as any exchange, until the endpoint agrees."""

    __slots__ = (
        "_active_at",
        "_booked",
        "_early",
        "_early_bytes",
        "_ending",
        "_frames",
        "_sent",
        "_session",
        "_short_from",
        "_write",
        "is_open",
    )

    def __init__(self, services: Services, client: SessionClient, request: Request) -> None:
        super().__init__(services, client, request)
        self._session = client
        self._received = self.life.received = SessionBody(request.path)
        self._frames = Frames()
        """Those of the endpoint."""
        self._sent = Frames()
        """Those of the client."""
        self._active_at = request.arrived_at
        """When either side last sent anything."""
        self._booked: Usage | None = None
        """What was counted of its tokens so far."""
        self._short_from = 0.0
        """When its tokens ran out here, while others may still be leased; else 0."""
        self._ending: tuple[int, str] | None = None
        """The code and the reason with which it ends as soon as its endpoint has ended a frame."""
        self._early: list[bytes] = []
        """The client's bytes before the endpoint has agreed."""
        self._early_bytes = 0
        self._write: Callable[[bytes], None] | None = None
        self.is_open = False
        """Whether the endpoint has agreed."""

    def start(self, now: float) -> None:
        """Start at `now`."""
        self._report(lambda: self._decide(now), now)

    def _decide(self, now: float) -> None:
        life = self.life
        query = self.request.target.partition(b"?")[2].decode("latin-1")
        life.decision = sessions.decide(life.plane, self.request, query)
        way.decided(life, now)

    def _send_on(self, connection: UpstreamConnection, now: float) -> None:
        self._upstream = connection
        way.sent(self.life, now)
        self._write = connection.send_upgrade(self, self._opening(), Uplink(self._session))
        if self._client.is_paused:
            connection.pause_reading()

    def _opening(self) -> bytes:
        """The request for the endpoint, with its name of the model."""
        head = _EXTENSIONS.sub(b"", self._outgoing.payload.removesuffix(_LENGTH))
        decision = self.life.decision
        line, _, rest = head.partition(b"\r\n")
        if decision.upstream_model != decision.model:
            method, target, version = line.split(b" ")
            path, _, query = target.partition(b"?")
            renamed = sessions.with_model(query.decode("latin-1"), decision.upstream_model)
            line = b"%b %b?%b %b" % (method, path, renamed.encode("latin-1"), version)
        return b"%b\r\n%b\r\n%b\r\n" % (line, rest, _UPGRADE)

    # -- what the endpoint sends

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        if status == SWITCHING:
            if not any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers):
                raise httptools.HttpParserError("a switch to another protocol than WebSocket")
            self.is_open = True
            connection.ends_with_connection()
        super().response_head(connection, status, headers, now)

    def _response_of(self, status: int, headers: list[Header], now: float) -> Response | Continuation:
        if status != SWITCHING:
            return super()._response_of(status, headers, now)
        kept = [
            header
            for header in headers
            if header[0] not in (b"connection", b"content-length", b"transfer-encoding")
        ]
        response = Response(self.request, self.request_id, status, kept, True, False, False)
        response.add(_UPGRADE)
        return response

    def forward(self, data: bytes, now: float) -> None:
        if not self.is_open:
            super().forward(data, now)
            return
        response, account, received = self._response, self.life.account, self._received
        assert response is not None
        if not response.has_begun:
            # Not by `way.first_byte`: it says nothing about the time of a first token.
            account.first_byte_at = now
            self._send_early()
        self._active_at = now
        way.heard(self.life, now)
        if data:
            received.tail.add(self._frames.feed(data))
            received.size += len(data)
        passed = response.pass_on(data)
        received.has_passed = True
        if passed:
            self._client.write(passed)
        usage = received.tail.usage()
        if usage is not None and usage is not self._booked:
            self._book(usage, now)
        if self._ending is not None:
            self._services.loop.call_soon(self._end_between)

    # -- limits

    def _book(self, usage: Usage, now: float) -> None:
        """A response is complete, and has used tokens."""
        before, self._booked = self._booked, usage
        limit = in_sessions.book(self.life, usage, before, now)
        if limit is not None and self._timer is None and self._ending is None:
            self._short_from = now
            self._run_out(limit, usage, now)

    def _run_out(self, limit: RouteLimit, usage: Usage, now: float) -> None:
        """No tokens are left here. Others may be leased; the session goes on until that is known."""
        output_tokens = self.life.decision.scheduled.output_tokens
        waiter = self._services.limit_sources.wait(limit, 1, output_tokens, self._leased)
        if waiter is not None:
            self._timer = waiter
        else:
            self._exhaust(limit, usage, now)

    def _leased(self) -> None:
        """Tokens were leased, or there are none."""
        self._timer = None
        life, usage, now = self.life, self._booked, self.now()
        if life.is_over or life.reservation is not None or usage is None:
            return
        limit = in_sessions.reserve(life, usage, now)
        if limit is None:
            return
        if now - self._short_from < life.plane.rules.ask_tokens_again_s:
            self._run_out(limit, usage, now)  # other requests, or a response of this session, took them
        else:
            self._exhaust(limit, usage, now)

    def _exhaust(self, limit: RouteLimit, usage: Usage, now: float) -> None:
        """No tokens are left of a limit. Not at once: the event that used the last ones is sent before."""
        self._ending = TRY_AGAIN_LATER, in_sessions.refused(self.life, limit, usage, now)
        self._services.loop.call_soon(self._end_between)

    def fast_path(self, data: bytes) -> FastPath | None:
        return None if self.is_open else super().fast_path(data)

    # -- what the client sends

    def receive(self, data: bytes) -> None:
        """Bytes of the client."""
        self._active_at = self.now()
        self._sent.feed(data)
        self.life.account.bytes_in += len(data)
        if self.is_open and self._write is not None and not self._early:
            self._write(data)
            return
        self._early.append(data)
        self._early_bytes += len(data)
        if self._early_bytes > MAX_EARLY_BYTES:
            self._session.pause_reading()

    def _send_early(self) -> None:
        early, self._early = self._early, []
        if self._write is not None:
            for data in early:
                self._write(data)
        if self._early_bytes > MAX_EARLY_BYTES:
            self._session.resume_reading()

    # -- ends

    def finished(self, now: float) -> None:
        """The endpoint has closed the connection. Neither side said so before if its process died."""
        if not self.is_open or self._frames.is_closing or self._sent.is_closing:
            super().finished(now)
            return
        self._upstream = None
        told = "it closed the connection without a close frame"
        lost, life = way.endpoint_lost, self.life
        self._report(lambda: lost(life, told, now, is_crossed=False, has_begun=True), now)

    def last_frame(self) -> bytes:
        """For the client of a session that its endpoint has broken off; empty within a frame."""
        if not self._frames.is_between or self._frames.is_closing:
            return b""
        return close_frame(BAD_GATEWAY, "the endpoint broke off")

    def sweep(self, now: float) -> None:
        if not self.is_open or self.life.state != states.ANSWERING:
            super().sweep(now)
            return
        if self._ending is not None:
            self.close(*self._ending, now)
            return
        idle_s = self._services.settings.endpoints.stream_idle_timeout_s
        if now - self._active_at > idle_s:
            self.close(GOING_AWAY, f"nothing was sent for {idle_s:g} s", now)

    def end(self, code: int, reason: str, now: float) -> None:
        """End an open session where its endpoint has ended a frame; if that does not come, when this is
        called again, or with the next sweep."""
        if self._ending is not None or self._frames.is_between:
            self.close(code, reason, now)
        else:
            self._ending = code, reason

    def _end_between(self) -> None:
        """End it, if it has to, and if its endpoint has ended a frame."""
        if self._ending is not None and self._frames.is_between and not self.life.is_over:
            self.close(*self._ending, self.now())

    def close(self, code: int, reason: str, now: float) -> None:
        """End an open session from here, within a frame without a close frame."""
        if self._frames.is_between and not self._frames.is_closing:
            self._client.write(close_frame(code, reason))
        self.life.account.error_message = reason
        self._drop(effects.DROP, now)
        way.finished(self.life, now)
        self._perform(now)
