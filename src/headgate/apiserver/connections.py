"""Connections: their users, their limits, and the Status that a rejected client gets.

`serving` bounds the size of the request head and the duration of each step. A connection's user is unknown
until its first request has presented a token. Unauthenticated connections are limited to a small number, and
the oldest is closed for a new one: a flood of silent connections cannot lock anyone out. After
authentication, a connection counts as its user's, and users share the limit (`shares`). Connections are
accepted here rather than by the event loop, which neither counts nor ends TLS handshakes.

The size of bodies is bounded where they are read (`handlers.bodies`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from headgate import serving
from headgate.apiserver import errors
from headgate.apiserver.shares import Shares

log = logging.getLogger(__name__)
_QUIET = logging.getLogger(f"{__name__}.uvicorn")
"""Logger for uvicorn's messages about malformed requests, with which anyone could fill a log."""
_QUIET.setLevel(logging.ERROR)

ACCEPT_AGAIN_S = 0.1
"""How long to pause accepting after an OS error."""
HANDSHAKES_AT_ONCE = 4
"""TLS handshakes that may run in one iteration of the event loop."""
HANDSHAKE_COUNTS_S = 0.01
"""How long a handshake counts as one of them if its peer is slow."""
MAX_LOG_STREAMS = 256
"""Logs being read from nodes, each of which uses another connection."""
_OWN_FILES = 64
_WRITE_BUFFER_BYTES = 64 * 1024
"""Bytes that may wait in a connection's buffer before the sender has to wait."""


@dataclass(frozen=True)
class Limits(serving.Limits):
    """Limits of connections, of which watches need many."""

    connections: int = 3000
    head_bytes: int = 64 * 1024
    handshake_s: float = 10.0
    """Timeout of a TLS handshake."""
    request_s: float = 60.0
    stalled_s: float = 60.0
    """How long a client may take to read the next part of a response."""

    @property
    def strangers(self) -> int:
        """The number of connections for unauthenticated clients."""
        return max(1, self.connections // 4)

    @property
    def known(self) -> int:
        """The number of connections that users share."""
        return max(1, self.connections - self.strangers)

    def affordable(self) -> Limits:
        """These limits, with as many connections as the process may have open files, except its own."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return replace(self, connections=max(1, min(self.connections, soft - _OWN_FILES - MAX_LOG_STREAMS)))


class Door:
    """Tracks all connections: unauthenticated ones in order of arrival, and users' shares of the others."""

    def __init__(self, limits: Limits, known: Shares, rejected: Counter[str]) -> None:
        """`known` is the limit that users share."""
        self.limits = limits
        self.rejected = rejected
        self._strangers: dict[Arrival, None] = {}
        self._known = known

    async def receive(
        self, listener: socket.socket, tls: ssl.SSLContext, make: Callable[[], BoundedProtocol]
    ) -> None:
        """Accept connections until cancelled, which also ends handshakes in progress.

        Nothing is awaited between accepting a connection and handing it to a task: a connection accepted by a
        cancelled `sock_accept` would have no owner.
        """
        begun: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as handshakes:
            while True:
                begun = await _few_of(begun)
                try:
                    peer, _ = listener.accept()
                except BlockingIOError:
                    await _readable(listener)
                    continue
                except OSError as error:  # for example, no file descriptors are left
                    log.error("cannot accept a connection: %s", error)
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                    continue
                peer.setblocking(False)
                begun.add(handshakes.create_task(self._greet(peer, tls, make())))
                await asyncio.sleep(0)

    async def _greet(self, peer: socket.socket, tls: ssl.SSLContext, protocol: BoundedProtocol) -> None:
        """Perform the handshake, after which the protocol reads requests."""
        protocol.take(self, Arrival(peer, protocol))
        self._enter(protocol.arrival)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, peer, ssl=tls, ssl_handshake_timeout=self.limits.handshake_s
            )
        except (
            OSError,
            asyncio.CancelledError,
        ) as error:  # TLS errors are OSErrors, and not errors of this server
            if protocol.arrival in self._strangers and not isinstance(error, asyncio.CancelledError):
                self.rejected["handshake"] += 1
            self.leave(protocol.arrival)
            peer.close()
            if isinstance(error, asyncio.CancelledError):
                raise

    def _enter(self, arrival: Arrival) -> None:
        self._strangers[arrival] = None
        if len(self._strangers) > self.limits.strangers:
            self.rejected["strangers"] += 1
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.dismiss()

    def admit(self, arrival: Arrival, user: str) -> bool:
        """Assign a connection to the user who authenticated on it; False if they have too many."""
        if arrival.user == user:
            return True
        if not self._known.take(user):
            self.rejected["connections"] += 1
            return False
        self.leave(arrival)
        arrival.user = user
        return True

    def leave(self, arrival: Arrival) -> None:
        self._strangers.pop(arrival, None)
        if arrival.user:
            self._known.give_back(arrival.user)
            arrival.user = ""

    def count(self, reason: serving.Reason) -> None:
        """Count a connection that was closed for exceeding a limit."""
        self.rejected[reason] += 1

    def statistics(self) -> dict[str, int]:
        return {"strangers": len(self._strangers), "known": self._known.statistics()["held"]}


async def _readable(listener: socket.socket) -> None:
    """Wait until a connection may be ready to accept."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(listener, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(listener)


async def _few_of(handshakes: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait until another handshake may begin; returns those that still count.

    A handshake takes the event loop about 2 ms, so a flood of them would delay every user. A slow peer is not
    waited for: its steps do not fall into the same iteration.
    """
    if len(handshakes) < HANDSHAKES_AT_ONCE:
        return handshakes
    _, pending = await asyncio.wait(
        handshakes, timeout=HANDSHAKE_COUNTS_S, return_when=asyncio.FIRST_COMPLETED
    )
    return pending if len(pending) < HANDSHAKES_AT_ONCE else set()


@dataclass(eq=False)
class Arrival:
    """A connection from its beginning; its user is known once it has authenticated."""

    peer: socket.socket
    protocol: BoundedProtocol
    user: str = ""

    def dismiss(self) -> None:
        """Close an unauthenticated connection in favor of a newer one."""
        if self.protocol.is_made:
            self.protocol.transport.abort()
        else:
            with contextlib.suppress(OSError):
                self.peer.shutdown(socket.SHUT_RDWR)


class BoundedProtocol(serving.BoundedProtocol):
    """Knows the user of its connection, and rejects with a Status, as Kubernetes does."""

    door: Door
    arrival: Arrival

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.is_lost = False
        self.on_lost: Callable[[], object] | None = None
        """Called once, when the client disconnects."""
        self.logger = _QUIET

    def take(self, door: Door, arrival: Arrival) -> None:
        """Take over an accepted connection before TLS."""
        self.door, self.arrival = door, arrival
        self.limits = door.limits
        self.rejected = door.count

    @property
    def is_made(self) -> bool:
        """Whether the TLS handshake is over."""
        return self.transport is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self.door.leave(self.arrival)
        super().connection_lost(exc)
        self.is_lost = True
        if self.on_lost is not None:
            self.on_lost()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["connection"] = self  # type: ignore[typeddict-unknown-key]

    def admit(self, user: str) -> bool:
        """Whether this authenticated user may have this connection."""
        return self.door.admit(self.arrival, user)

    async def sent(self) -> None:
        """Wait until the client has read most of what was sent."""
        if self.flow.write_paused:
            await self.flow.drain()

    def abort(self) -> None:
        """Close the connection in the middle of a response."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def rejection(self, reason: serving.Reason, told: str) -> tuple[int, list[bytes], bytes]:
        error = _status(reason, told)
        retry = [b"retry-after: %d" % error.retry_after_s] if error.retry_after_s else []
        return error.code, retry, msgspec.json.encode(error.to_dict())


def _status(reason: serving.Reason, told: str) -> errors.StatusError:
    if reason == "too_many_connections":
        return errors.too_many_requests("Too many requests, please try again later.")
    if reason == "head_too_large":
        return errors.StatusError(431, "RequestHeaderFieldsTooLarge", told)
    if reason in ("too_many_chunks", "too_many_escapes"):
        return errors.bad_request(told)
    return errors.StatusError(408, "Timeout", told)
