"""Upstream connections by endpoint: keeps the idle ones and opens new ones."""

from __future__ import annotations

import asyncio
import copy
import errno
import os
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, cast

from headgate import lookup, routing
from headgate.dataplane import tls
from headgate.dataplane.connector import speaking_http2
from headgate.dataplane.http2.errors import Http2Error
from headgate.dataplane.providers import Providers
from headgate.gateway.settings import GatewaySettings
from headgate.gateway.upstream import UpstreamConnection
from headgate.loop_turns import LoopTurns, Turns
from headgate.routing import Endpoint

if TYPE_CHECKING:
    from headgate.dataplane.http2.translator import Translator

NO_PROVIDERS = GatewaySettings().providers
_OWN_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ShortageError(Exception):
    """This machine cannot open another connection. The endpoint has not failed, and no other would help."""


def why_unreachable(error: Exception) -> str:
    """Why a new connection failed, for the log."""
    return f"cannot be used: {error}" if isinstance(error, Http2Error) else lookup.why_unreachable(error)


class Reached(NamedTuple):
    """An endpoint and its protocol."""

    endpoint: Endpoint
    tls: routing.Tls | None = None
    """How it is verified; None without TLS."""
    http2: bool = False
    """Whether it uses HTTP/2 with prior knowledge, instead of HTTP/1.1."""


class EndpointConnections:
    """The connections to one endpoint."""

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
        """The name that the certificate must have."""
        self.speaks_http2 = http2
        self._idle: list[UpstreamConnection] = []
        """In the order in which they became idle."""
        self._sweeps = 0
        self._open: set[UpstreamConnection] = set()
        self._closed = False

    def take(self) -> UpstreamConnection | None:
        """The idle connection used last, so that surplus ones time out; None if there is none."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    async def connect(self) -> UpstreamConnection:
        """Open a new connection. Raises OSError, TimeoutError or ShortageError.

        There are never more connections than requests at the endpoint, which the pick limits, because idle
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
            # After a TLS handshake, the loop would send a close alert and wait for that of the peer.
            connection.abort()
            raise
        if not connection.usable:
            # A copy: the protocol keeps the error, and its traceback would refer to the protocol.
            unfit = getattr(protocol, "error", None)
            raise copy.copy(unfit) or ConnectionResetError("closed immediately after it was accepted")
        self._open.add(connection)
        return connection

    def keep(self, connection: UpstreamConnection) -> None:
        """Keep a new connection that is no longer needed. Like any idle connection, the endpoint may close it
        just as it is reused."""
        connection.reused = True
        self.give_back(connection)

    def give_back(self, connection: UpstreamConnection) -> None:
        if self._closed or len(self._idle) >= self.settings.endpoints.max_idle_connections:
            connection.abort()
        else:
            connection.idle_from = self._sweeps
            self._idle.append(connection)

    def sweep(self) -> None:
        """Close connections that were idle for too long. Called about once a second; sweeps measure the time.

        The endpoint would close them soon, and a request that is sent just then costs a round trip.
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
        """Close the idle connections; the others end with their exchange."""
        self._closed = True
        for connection in list(self._idle):
            connection.abort()
        self._idle.clear()

    def statistics(self) -> dict[str, int]:
        return {"open": len(self._open), "idle": len(self._idle)}


class Connections:
    """The connections to all endpoints, shared by all pools and snapshots that verify an endpoint alike."""

    def __init__(
        self, settings: GatewaySettings, turns: LoopTurns, providers: Providers | None = None
    ) -> None:
        self._settings = settings
        self._turns = turns
        self._of: dict[Reached, EndpointConnections] = {}
        self._contexts = tls.Contexts()
        self.providers = providers or Providers(NO_PROVIDERS)
        """External providers, which need a key of each request."""

    def to(self, reached: Reached) -> EndpointConnections:
        """The connections to an endpoint. Raises SSLError if its CA certificates are invalid."""
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
        """The TLS context for endpoints that are verified like this. Raises SSLError."""
        return self._contexts.get(verified, http2=http2)

    def speaking_http2(self, user: asyncio.Protocol, uploads: Turns, downloads: Turns) -> Translator:
        """See `speaking_http2`."""
        return speaking_http2(user, uploads, downloads)

    def all(self) -> list[EndpointConnections]:
        """The connections to endpoints that were picked and still exist."""
        return list(self._of.values())

    def keep(self, pools: Iterable[routing.Pool]) -> None:
        """Close the connections to endpoints of no pool."""
        reached: dict[tuple[routing.Tls | None, bool], set[Endpoint]] = {}
        for pool in pools:
            reached.setdefault((pool.tls, pool.http2), set()).update(pool.endpoints)
        for key in [key for key in self._of if key.endpoint not in reached.get((key.tls, key.http2), ())]:
            self._of.pop(key).close()
        self._contexts.keep(tls for tls, _ in reached if tls is not None)

    def keep_only(self, reached: Iterable[Reached]) -> None:
        """Close the connections to all other endpoints."""
        kept = set(reached)
        for key in [key for key in self._of if key not in kept]:
            self._of.pop(key).close()

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
