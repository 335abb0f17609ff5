"""The HTTP/2 connections of clients of one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headgate.gateway.http2.client_streams import ClientStreams
from headgate.http2 import Connection, Holdings, Limits

if TYPE_CHECKING:
    from headgate.gateway.services import Services
    from headgate.gateway.settings import GatewaySettings

MAX_HELD_BYTES: Final = 256 << 20
"""Unsent response bytes of all streams together."""
WINDOW_BYTES: Final = 1 << 20
CONNECTION_WINDOW_BYTES: Final = 8 << 20
"""Flow control windows of streams and connections: what they allow counts as held memory once it arrives."""
HEADER_BYTES: Final = 64
"""Allowed for each header besides its length, which HTTP/1.1 does not count."""
GREETING_S: Final = 10.0
ABANDONED_BURST: Final = 1000
ABANDONED_PER_S: Final = 100
"""Requests that a client may cancel before their response begins: at once, and per second."""


class Http2Server:
    """Owned by the clients of a process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._held = Holdings(MAX_HELD_BYTES)
        self._connections: set[ClientStreams] = set()

    def protocol(self, make: Callable[[], asyncio.Protocol]) -> Connection:
        """The protocol of a new connection. `make`: makes the HTTP/1.1 protocol of one of its requests."""
        services = self._services
        streams = ClientStreams(self, make, services.loop)
        limits = limits_of(services.settings)
        return Connection(streams, services.turns.uploads, limits, self._held, is_client=False)

    def take_over(
        self, transport: asyncio.Transport, make: Callable[[], asyncio.Protocol], data: bytes
    ) -> None:
        """Go on with a connection that begins with the preface of HTTP/2, in `data`."""
        protocol = self.protocol(make)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(data)

    def made(self, streams: ClientStreams) -> None:
        self._connections.add(streams)

    def lost(self, streams: ClientStreams) -> None:
        self._connections.discard(streams)

    def sweep(self, now: float) -> None:
        """Enforce timeouts, and let connections end if the process does; called about once a second."""
        is_leaving = self._services.shutdown.is_leaving
        for streams in [*self._connections]:
            connection = streams.connection
            if connection is None:
                continue
            if is_leaving:
                connection.drain()
            connection.sweep(now)

    def drain(self) -> None:
        """Let connections end with their last requests (GOAWAY)."""
        for streams in [*self._connections]:
            if streams.connection is not None:
                streams.connection.drain()

    def abort(self) -> None:
        for streams in [*self._connections]:
            if streams.connection is not None:
                streams.connection.abort("the gateway has ended")

    def statistics(self) -> dict[str, int]:
        connections = [each.connection for each in self._connections]
        return {
            "connections": len(connections),
            "streams": sum(len(each.http2.streams) for each in connections if each is not None),
            "held_bytes": self._held.used_bytes,
        }


def limits_of(settings: GatewaySettings) -> Limits:
    """What a client may use, by the settings of HTTP/1.1."""
    clients = settings.clients
    # Heads that are only a little too long get an error response instead of losing the connection.
    header_bytes = 2 * clients.max_head_bytes + HEADER_BYTES * clients.max_headers
    return Limits(
        max_header_bytes=header_bytes,
        max_calls=clients.max_streams,
        max_all_calls=2 * clients.max_connections,  # admission says why there are too many
        abandoned_burst=ABANDONED_BURST,
        abandoned_per_s=ABANDONED_PER_S,
        call_window_bytes=WINDOW_BYTES,
        connection_window_bytes=CONNECTION_WINDOW_BYTES,
        high_water_bytes=clients.write_buffer_bytes,
        max_held_bytes=MAX_HELD_BYTES,
        handshake_timeout_s=GREETING_S,
        stall_timeout_s=settings.endpoints.stream_idle_timeout_s,
        incomplete_timeout_s=clients.receive_timeout_s,
    )
