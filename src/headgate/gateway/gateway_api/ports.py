"""The ports of listeners: opened and closed as Gateways change, in every worker.

Each worker has sockets of its own, which share their port with those of the other workers. A port that cannot
be opened is tried again, and reported.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Final, cast

from headgate import serving
from headgate.gateway import accepting
from headgate.gateway.gateway_api import deciding
from headgate.gateway.gateway_api.connection import EntryConnection
from headgate.gateway.gateway_api.tls import ListenerNames
from headgate.gateway.tls import Policy

if TYPE_CHECKING:
    from headgate.gateway.gateway_api.shared import Shared
    from headgate.routing.gateway_api import EntryPoints, Place, Port

log = logging.getLogger(__name__)

RETRY_S: Final = 2.0
MAX_PORTS: Final = 256
"""Of all Gateways together, in one process."""


class _Open:
    """An open port."""

    def __init__(self, server: asyncio.Server, tls: ListenerNames | None) -> None:
        self.server = server
        self.tls = tls


class Ports:
    """Owned by a worker's service."""

    def __init__(self, shared: Shared, host: str) -> None:
        """`host`: where Gateways without an address are served."""
        self._shared = shared
        self._host = host
        self._open: dict[Place, _Open] = {}
        self._changed = asyncio.Event()
        self._is_closed = False

    def use(self, entry_points: EntryPoints) -> None:
        """Serve by these entry points from now on. Ports are opened and closed by `run`."""
        self._shared.use(entry_points)
        for place, opened in self._open.items():
            port = entry_points.ports.get(place)
            if port is not None and opened.tls is not None:
                opened.tls.use(port)
        self._changed.set()

    async def run(self) -> None:
        """Open and close ports until cancelled."""
        while True:
            self._changed.clear()
            await self.apply()
            try:
                async with asyncio.timeout(RETRY_S if any(self._shared.ports.values()) else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def apply(self) -> None:
        """Open and close ports once, as the entry points say."""
        wanted = {} if self._is_closed else dict(self._shared.entry_points.ports)
        for place in list(self._open):
            opened, port = self._open[place], wanted.get(place)
            if port is None or port.is_https != (opened.tls is not None):
                self._open.pop(place).server.close()
        known = self._shared.ports
        self._shared.ports = {place: known.get(place, "") for place in wanted}
        for place, port in wanted.items():
            if place not in self._open:
                await self._try(place, port)

    async def _try(self, place: Place, port: Port) -> None:
        try:
            self._open[place] = await self._listen(place, port)
        except (OSError, ssl.SSLError) as error:
            if not self._shared.ports.get(place):
                log.error("a port of a Gateway cannot be opened: %s", error)
            self._shared.ports[place] = str(error)
        except Exception:  # one bad object must not end the worker
            log.exception("opening a port of a Gateway")
            self._shared.ports[place] = "the gateway failed to open it: see its log"
        else:
            self._shared.ports[place] = ""

    async def _listen(self, place: Place, port: Port) -> _Open:
        if len(self._open) >= MAX_PORTS:
            raise OSError(
                f"Gateways have more than {MAX_PORTS} ports: use fewer, with several host names each"
            )
        shared, loop = self._shared, self._shared.services.loop
        sock = serving.listening_socket(place.address or self._host, place.port, shared=True)
        told = shared.services.settings.tls
        policy = Policy(told.min_version, told.ciphers, told.http2)
        tls = ListenerNames(port, policy) if port.is_https else None
        try:
            server = await loop.create_server(
                accepting.protocols(
                    shared.clients,
                    lambda: cast(asyncio.Protocol, EntryConnection(shared, place, deciding.decide)),
                    tls.names.context if tls is not None else None,
                ),
                sock=sock,
                backlog=serving.BACKLOG,
            )
        except BaseException:
            sock.close()
            raise
        return _Open(server, tls)

    def close(self) -> None:
        """Accept no more connections."""
        self._is_closed = True
        for opened in self._open.values():
            opened.server.close()
        self._open.clear()
        self._shared.ports = {}
        self._changed.set()
