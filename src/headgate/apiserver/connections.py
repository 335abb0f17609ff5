"""Connections: whose they are, their limits, and the Status that a rejected client gets.

`serving` bounds how large a head may be and how long each step may take. Who opens a connection is unknown
until its first request has shown a token. Connections that have not shown one are few, and the oldest of them
makes room for a new one: a flood of connections that say nothing cannot keep anybody out. After that a
connection counts as its user's, and users share them (`shares`). Connections are accepted here and not by the
event loop, which neither counts nor ends TLS handshakes.

The size of a body is bounded where it is read (`handlers.bodies`).
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
"""For what uvicorn says of requests: of nonsense that anybody can send, a log would only grow."""
_QUIET.setLevel(logging.ERROR)

ACCEPT_AGAIN_S = 0.1
"""How long nobody is accepted after an error of the system."""
HANDSHAKES_AT_ONCE = 4
"""TLS handshakes that may run in one turn of the event loop."""
HANDSHAKE_COUNTS_S = 0.01
"""How long a handshake counts as one of them, if its peer is slow."""
MAX_LOG_STREAMS = 256
"""Logs that are read from nodes, each of which takes another connection."""
_OWN_FILES = 64
_WRITE_BUFFER_BYTES = 64 * 1024
"""What may wait in a connection's buffer before its sender has to wait."""


@dataclass(frozen=True)
class Limits(serving.Limits):
    """Of connections, of which watches need many."""

    connections: int = 3000
    head_bytes: int = 64 * 1024
    handshake_s: float = 10.0
    """How long a TLS handshake may take."""
    request_s: float = 60.0
    stalled_s: float = 60.0
    """How long a client may take for the next part of what is sent to it."""

    @property
    def strangers(self) -> int:
        """Of the connections, those on which nobody has shown a token."""
        return max(1, self.connections // 4)

    @property
    def known(self) -> int:
        """Of the connections, those that users share."""
        return max(1, self.connections - self.strangers)

    def affordable(self) -> Limits:
        """These limits, with as many connections as the process may have files open besides its own."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return replace(self, connections=max(1, min(self.connections, soft - _OWN_FILES - MAX_LOG_STREAMS)))


class Door:
    """Owner of all connections: strangers in the order of their arrival, and users' shares of the others."""

    def __init__(self, limits: Limits, known: Shares, rejected: Counter[str]) -> None:
        """`known` is what users share of the connections that are no strangers'."""
        self.limits = limits
        self.rejected = rejected
        self._strangers: dict[Arrival, None] = {}
        self._known = known

    async def receive(
        self, listener: socket.socket, tls: ssl.SSLContext, make: Callable[[], BoundedProtocol]
    ) -> None:
        """Accepts connections until cancelled, which ends the handshakes that are under way.

        There is no wait between accepting a connection and giving it to a task: one that a cancelled
        `sock_accept` had accepted would belong to nobody.
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
                except OSError as error:  # no files are left, for one
                    log.error("cannot accept a connection: %s", error)
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                    continue
                peer.setblocking(False)
                begun.add(handshakes.create_task(self._greet(peer, tls, make())))
                await asyncio.sleep(0)

    async def _greet(self, peer: socket.socket, tls: ssl.SSLContext, protocol: BoundedProtocol) -> None:
        """Does the handshake, after which the protocol reads requests."""
        protocol.take(self, Arrival(peer, protocol))
        self._enter(protocol.arrival)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, peer, ssl=tls, ssl_handshake_timeout=self.limits.handshake_s
            )
        except (
            OSError,
            asyncio.CancelledError,
        ) as error:  # what TLS says is an OSError, and nobody's fault here
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
        """Makes a connection a user's, who has shown a token on it; False if he has too many."""
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
        """Counts a connection that was ended for exceeding a limit."""
        self.rejected[reason] += 1

    def statistics(self) -> dict[str, int]:
        return {"strangers": len(self._strangers), "known": self._known.statistics()["held"]}


async def _readable(listener: socket.socket) -> None:
    """Waits until there may be somebody to accept."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(listener, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(listener)


async def _few_of(handshakes: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Waits until another handshake may begin; returns those that still count.

    A handshake takes the event loop for some 2 ms, so a flood of them would keep every user waiting. A peer
    that is slow to answer is not waited for: its steps do not fall into the same turn.
    """
    if len(handshakes) < HANDSHAKES_AT_ONCE:
        return handshakes
    _, pending = await asyncio.wait(
        handshakes, timeout=HANDSHAKE_COUNTS_S, return_when=asyncio.FIRST_COMPLETED
    )
    return pending if len(pending) < HANDSHAKES_AT_ONCE else set()


@dataclass(eq=False)
class Arrival:
    """A connection from its beginning, whose user is known once a token was shown on it."""

    peer: socket.socket
    protocol: BoundedProtocol
    user: str = ""

    def dismiss(self) -> None:
        """Ends the connection of a stranger in favour of a newer one."""
        if self.protocol.is_made:
            self.protocol.transport.abort()
        else:
            with contextlib.suppress(OSError):
                self.peer.shutdown(socket.SHUT_RDWR)


class BoundedProtocol(serving.BoundedProtocol):
    """Knows whose connection it is, and rejects with a Status, as Kubernetes does."""

    door: Door
    arrival: Arrival

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.is_lost = False
        self.on_lost: Callable[[], object] | None = None
        """Called once, when the client disconnects."""
        self.logger = _QUIET

    def take(self, door: Door, arrival: Arrival) -> None:
        """Takes this connection, which is accepted and has no TLS yet."""
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
        """Whether this user, who has shown a token, may have this connection."""
        return self.door.admit(self.arrival, user)

    async def sent(self) -> None:
        """Waits until the client has taken most of what was sent to it."""
        if self.flow.write_paused:
            await self.flow.drain()

    def abort(self) -> None:
        """Ends the connection in the middle of an answer."""
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
