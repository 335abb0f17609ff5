"""Connections to the endpoint pickers of pools: one for each endpoint of a picker's Service."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from headgate import loop_turns, rpc
from headgate.lookup import why_unreachable

if TYPE_CHECKING:
    from headgate.gateway.gateway_api.balancing import Balancer
    from headgate.routing import Endpoint
    from headgate.routing.gateway_api import ServiceEndpoints

log = logging.getLogger(__name__)

CONNECT_S: Final = 3.0
LOG_S: Final = 10.0
MAX_ENDPOINTS: Final = 3
"""Endpoints of a picker that are tried for one request."""


class Pickers:
    """Owned by one process. Pickers have self-signed certificates, which are not verified; a Service whose
    port has the appProtocol kubernetes.io/h2c is asked without TLS."""

    def __init__(self, loop: asyncio.AbstractEventLoop, balancer: Balancer) -> None:
        self._turns = loop_turns.Turns(loop)
        self._balancer = balancer
        self._clients: dict[Endpoint, rpc.Client] = {}
        self._connecting: dict[Endpoint, asyncio.Future[rpc.Client | str]] = {}
        self._retired: list[rpc.Client] = []
        """Connections for no further calls, which are closed once theirs have ended."""
        self._told_at: dict[str, float] = {}

    async def client(self, service: ServiceEndpoints, now: float) -> rpc.Client | str:
        """A usable connection to a picker, or why there is none. (An exception that several requests wait for
        would refer to all of them until the next garbage collection.)"""
        tried: list[Endpoint] = []
        why = "it has no ready endpoint"
        while len(tried) < MAX_ENDPOINTS:
            endpoint = self._balancer.pick(service, tried, now)
            if endpoint is None:
                break
            tried.append(endpoint)
            known = self._clients.get(endpoint)
            if known is not None and known.is_usable:
                return known
            found = await self._connected(endpoint, is_plain=service.http2)
            if isinstance(found, rpc.Client):
                return found
            why = f"{endpoint.address} {found}"
            self._balancer.failed(endpoint, now)
        return why

    def note_failure(self, pool: str, why: str, now: float) -> None:
        """Log that a picker could not be asked, at most every few seconds for each pool."""
        if now - self._told_at.get(pool, -math.inf) >= LOG_S:
            self._told_at[pool] = now
            log.warning("the picker of %s cannot be asked: %s", pool, why)

    async def _connected(self, endpoint: Endpoint, *, is_plain: bool) -> rpc.Client | str:
        """Connect, once for all requests that wait for it."""
        waiting = self._connecting.get(endpoint)
        if waiting is None:
            waiting = self._connecting[endpoint] = asyncio.ensure_future(self._connect(endpoint, is_plain))
            waiting.add_done_callback(lambda _: self._connecting.pop(endpoint, None))
        return await asyncio.shield(waiting)

    async def _connect(self, endpoint: Endpoint, is_plain: bool) -> rpc.Client | str:
        tls = None if is_plain else rpc.tls.for_client(None)
        try:
            async with asyncio.timeout(CONNECT_S):
                made = await rpc.connect(endpoint.host, endpoint.port, self._turns, tls=tls)
        except (OSError, TimeoutError) as error:
            return why_unreachable(error)
        before = self._clients.get(endpoint)
        if before is not None:
            self._retire(before)
        self._clients[endpoint] = made
        return made

    def _retire(self, client: rpc.Client) -> None:
        if client.calls:
            self._retired.append(client)
        else:
            client.close()

    def keep(self, endpoints: Collection[Endpoint]) -> None:
        """Close the connections to all others, once their calls have ended."""
        for endpoint in [each for each in self._clients if each not in endpoints]:
            self._retire(self._clients.pop(endpoint))

    def sweep(self) -> None:
        """Close what is no longer in use; called about once a second."""
        retired, self._retired = self._retired, []
        for client in retired:
            self._retire(client)

    def close(self) -> None:
        for waiting in list(self._connecting.values()):
            waiting.cancel()
        for client in (*self._clients.values(), *self._retired):
            client.close()
        self._retired.clear()
        self._clients.clear()
