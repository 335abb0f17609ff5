"""The client connections of a process: admission, displacement of idle ones, and shutdown."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from headgate.gateway import limits
from headgate.gateway.exchange import Exchange
from headgate.gateway.http2 import Http2Server
from headgate.gateway.redirecting import Insecure
from headgate.gateway.services import Services
from headgate.gateway.settings import GatewaySettings
from headgate.gateway.tls.handshakes import Handshakes
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.tls.served import Served

MAX_TURNED_AWAY = 64


class Client(limits.Displaceable, Protocol):
    """One connection."""

    @property
    def exchange(self) -> Exchange | None:
        """Its request in progress."""
        ...

    @property
    def waiting(self) -> int:
        """The number of pipelined requests."""
        ...

    @property
    def reading_since(self) -> float | None: ...
    @property
    def is_paused(self) -> bool:
        """Whether the client is slow to read."""
        ...

    def change(self, settings: GatewaySettings) -> None: ...
    def sweep(self, now: float) -> None: ...
    def displaced(self) -> str:
        """Close the connection in favor of another; return the address under which it is counted."""
        ...

    def close_if_idle(self) -> None: ...
    def abort(self) -> None: ...


class Clients:
    """The connections of one process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.all: set[Client] = set()
        self._turned_away: set[Client] = set()
        self._count = limits.ClientCount(services.settings)
        self._unused: limits.Unused[Client] = limits.Unused()
        self._left = asyncio.Event()
        self.handshakes = Handshakes(services.loop)
        self.insecure = Insecure(services.loop)
        """Connections without TLS, where it is needed."""
        self.http2 = Http2Server(services)
        self.certificates: Served | None = None
        """Those of the inference API; None without TLS."""

    def __len__(self) -> int:
        return len(self.all)

    def change(self, settings: GatewaySettings) -> None:
        """Apply new settings. Open connections stay."""
        self._count.change(settings)
        for client in self.all:
            client.change(settings)

    @property
    def counts_addresses(self) -> bool:
        return self._count.counts_addresses

    def admit(self, client: Client, counted_as: str) -> Refusal | None:
        """Admit a connection, or return why not. May displace one without a request."""
        if self._count.needs_room(counted_as):
            self._displace()
        refusal = self._count.admit(counted_as)
        if refusal is None:
            self.all.add(client)
        return refusal

    def _displace(self) -> None:
        client = self._unused.next(self.all, self._services.now())
        if client is not None:
            self.left(client, client.displaced())
            self._services.recorder.displaced()

    def may_linger(self, client: Client) -> bool:
        """Whether a rejected client may stay to receive the refusal; only a bounded number may."""
        if len(self._turned_away) >= MAX_TURNED_AWAY:
            return False
        self._turned_away.add(client)
        return True

    def replace(self, client: Client, other: Client) -> None:
        """Give the place of a connection to what takes it over."""
        if client in self.all:
            self.all.discard(client)
            self.all.add(other)

    def left(self, client: Client, counted_as: str) -> None:
        """A connection has ended. A second call does nothing."""
        if client in self.all:
            self.all.discard(client)
            self._count.left(counted_as)
            self._left.set()
        else:
            self._turned_away.discard(client)

    def sweep(self, now: float) -> None:
        self.http2.sweep(now)
        for client in (*self.all, *self._turned_away):
            client.sweep(now)

    def close_idle(self) -> None:
        self.http2.drain()
        for client in list(self.all):
            client.close_if_idle()

    async def until_left(self, limit_s: float) -> int:
        """Wait until all have left, for at most this many seconds; return how many have not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self.all:
                    self._left.clear()
                    await self._left.wait()
        return len(self.all)

    def abort(self) -> None:
        self.handshakes.close()
        self.insecure.close()
        self.http2.abort()
        for client in (*self.all, *self._turned_away):
            client.abort()
