"""Connections to endpoints by endpoint: which are idle, and how new ones are made."""

from __future__ import annotations

import asyncio
import copy
import errno
import os
import ssl
from collections.abc import Set
from typing import TYPE_CHECKING, NamedTuple, cast

from headgate import lookup, routing
from headgate.gateway import tls
from headgate.gateway.http2.errors import Http2Error
from headgate.gateway.settings import GatewaySettings
from headgate.gateway.upstream import UpstreamConnection
from headgate.loop_turns import LoopTurns, Turns
from headgate.routing import Endpoint

if TYPE_CHECKING:
    from headgate.gateway.http2.translator import Translator

_OWN_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ShortageError(Exception):
    """This machine cannot open another connection: no failure of the endpoint, and no other is better."""


def why_unreachable(error: Exception) -> str:
    """What went wrong with a new connection, for whoever asked for it."""
    return f"cannot be used: {error}" if isinstance(error, Http2Error) else lookup.why_unreachable(error)


class Reached(NamedTuple):
    """An endpoint, and how it is spoken to."""

    endpoint: Endpoint
    tls: routing.Tls | None = None
    """How it is verified; None where it speaks no TLS."""
    http2: bool = False
    """Whether HTTP/2 is spoken from the first byte; else it is HTTP/1.1."""


class EndpointConnections:
    """The connections to one endpoint: the idle ones, and how new ones are made."""

    def __init__(
        self,
        endpoint: Endpoint,
        tls: ssl.SSLContext | None,
        settings: GatewaySettings,
        turns: LoopTurns,
        *,
        server_name: str = "",
        http2: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self._lookup = lookup.Lookup(endpoint.host)
        self.settings = settings
        self.turns = turns
        self._tls = tls
        self._server_name = server_name or endpoint.host
        """The name that a certificate must have."""
        self.speaks_http2 = http2
        self._idle: list[UpstreamConnection] = []
        """In the order in which they fell idle."""
        self._sweeps = 0
        self._open: set[UpstreamConnection] = set()
        self._closed = False

    def take(self) -> UpstreamConnection | None:
        """An idle connection, the one used last first: the others may go."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    async def connect(self) -> UpstreamConnection:
        """A new connection. Raises OSError, TimeoutError or ShortageError.

        There are never more than the requests that the endpoint has, which the pick bounds, and the idle
        ones are used first.
        """
        loop = asyncio.get_running_loop()
        connection = UpstreamConnection(self)
        protocol = cast(asyncio.Protocol, connection)
        if self.speaks_http2:
            protocol = speaking_http2(protocol, self.turns.uploads, self.turns.downloads)
        try:
            async with asyncio.timeout(self.settings.endpoints.connect_timeout_s):
                await self._lookup.connected(
                    lambda address: loop.create_connection(
                        lambda: protocol,
                        address,
                        self.endpoint.port,
                        ssl=self._tls,
                        server_hostname=self._server_name if self._tls is not None else None,
                    )
                )
        except OSError as error:
            connection.abort()
            if error.errno in _OWN_SHORTAGES:
                reason = os.strerror(error.errno)
                raise ShortageError(f"the gateway cannot open another connection: {reason}") from error
            raise
        except BaseException:
            # Just as the TLS handshake was done: the loop would say goodbye, and wait until the peer does.
            connection.abort()
            raise
        if not connection.usable:
            # A copy: the protocol keeps the error, whose traceback would refer to the protocol.
            unfit = getattr(protocol, "error", None)
            raise copy.copy(unfit) or ConnectionResetError("closed as soon as it was accepted")
        self._open.add(connection)
        return connection

    def keep(self, connection: UpstreamConnection) -> None:
        """Keeps a new connection that nobody waits for any more. As with any idle one, the endpoint may close
        it just as it is used."""
        connection.reused = True
        self.give_back(connection)

    def give_back(self, connection: UpstreamConnection) -> None:
        if self._closed or len(self._idle) >= self.settings.endpoints.max_idle_connections:
            connection.abort()
        else:
            connection.idle_from = self._sweeps
            self._idle.append(connection)

    def sweep(self) -> None:
        """Ends connections that were idle for too long; called about once a second, which is the clock here.

        The endpoint would end them soon: a request that it crosses with costs a round trip.
        """
        self._sweeps += 1
        oldest = self._sweeps - self.settings.endpoints.keep_alive_s
        while self._idle and self._idle[0].idle_from <= oldest:
            self._idle.pop(0).abort()

    def lost(self, connection: UpstreamConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Ends the idle connections; the others end with their exchange."""
        self._closed = True
        for connection in list(self._idle):
            connection.abort()
        self._idle.clear()

    def statistics(self) -> dict[str, int]:
        return {"open": len(self._open), "idle": len(self._idle)}


class Connections:
    """Those to all endpoints. Shared by all pools and snapshots that have an endpoint and verify it alike."""

    def __init__(self, settings: GatewaySettings, turns: LoopTurns) -> None:
        self._settings = settings
        self._turns = turns
        self._of: dict[Reached, EndpointConnections] = {}
        self._contexts = tls.Contexts()

    def to(self, reached: Reached) -> EndpointConnections:
        """Raises SSLError if its authorities are none."""
        connections = self._of.get(reached)
        if connections is None:
            endpoint, verified, http2 = reached
            context = self._contexts.get(verified, http2=http2) if verified is not None else None
            name = verified.server_name if verified is not None else ""
            connections = EndpointConnections(
                endpoint, context, self._settings, self._turns, server_name=name, http2=http2
            )
            self._of[reached] = connections
        return connections

    def tls_context(self, verified: routing.Tls, *, http2: bool = False) -> ssl.SSLContext:
        """What connections to endpoints are made with that are verified like this. Raises SSLError."""
        return self._contexts.get(verified, http2=http2)

    def speaking_http2(self, user: asyncio.Protocol, uploads: Turns, downloads: Turns) -> Translator:
        """What connections to endpoints that speak HTTP/2 are made with."""
        return speaking_http2(user, uploads, downloads)

    def all(self) -> list[EndpointConnections]:
        """Those to endpoints that were picked and are still known."""
        return list(self._of.values())

    def keep(self, reached: Set[Reached]) -> None:
        """Ends those to all other endpoints."""
        for key in self._of.keys() - reached:
            self._of.pop(key).close()
        self._contexts.keep(each.tls for each in reached if each.tls is not None)

    def change(self, settings: GatewaySettings) -> None:
        self._settings = settings
        for connections in self._of.values():
            connections.settings = settings

    def sweep(self) -> None:
        for connections in self._of.values():
            connections.sweep()

    def close(self) -> None:
        for connections in self._of.values():
            connections.close()

    def statistics(self) -> dict[str, dict[str, int]]:
        """By address."""
        return {each.endpoint.address: each.statistics() for each in self._of.values()}


def speaking_http2(user: asyncio.Protocol, uploads: Turns, downloads: Turns) -> Translator:
    """What stands between a socket and a protocol of HTTP/1.1 where the endpoint speaks HTTP/2.

    Imported here: h2 takes megabytes, and most gateways have no such endpoint.
    """
    from headgate.gateway.http2.translator import Translator

    return Translator(user, uploads, downloads)
