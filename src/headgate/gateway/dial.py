"""A new connection to an endpoint, made for one request."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from headgate.gateway.connections import ShortageError

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.gateway.connections import EndpointConnections
    from headgate.gateway.services import Services
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.pool_state import PoolState

log = logging.getLogger(__name__)

_LATE_S: Final = 0.05
"""If the timer for a slow connection fires this late, the gateway itself was busy."""


class Caller(Protocol):
    """The request that waits for the connection."""

    def connected(self, connection: UpstreamConnection, now: float) -> None: ...
    def connect_failed(self, error: Exception, now: float) -> None: ...
    def connects_slowly(self, now: float) -> None:
        """It takes longer than usual for this pool, and may still succeed."""
        ...


class Dial:
    """Reports the result to the caller. If the caller left before, the result only counts for the health of
    the endpoint."""

    __slots__ = ("_caller", "_connections", "_load", "_pool", "_services", "_task")

    def __init__(self, services: Services, caller: Caller, pool: PoolState, load: EndpointState) -> None:
        self._services = services
        self._caller: Caller | None = caller
        self._pool = pool
        self._load = load
        self._connections: EndpointConnections = services.connections_to(pool, load)
        self._task: asyncio.Task[None] | None = services.background.spawn(self._connect())
        """None once done, to break the reference cycle of the task, its coroutine and this object."""

    def leave(self) -> None:
        """The caller tries another endpoint; keep the connection for other requests."""
        self._caller = None

    def cancel(self) -> None:
        """Stop connecting."""
        self._caller = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _connect(self) -> None:
        services, pool = self._services, self._pool
        started_at = services.now()
        long_s = pool.evidence.connects.long_s(started_at)
        timer = None
        if long_s is not None:
            timer = services.loop.call_later(long_s, self._is_slow, started_at + long_s)
        try:
            connection = await self._connections.connect()
        except Exception as error:
            self._failed(error)
            return
        finally:
            self._task = None
            if timer is not None:
                timer.cancel()
        now = services.now()
        services.plane.connected(pool, now - started_at)
        caller = self._caller
        if caller is None:
            self._connections.keep(connection)
        else:
            caller.connected(connection, now)

    def _failed(self, error: Exception) -> None:
        """Handle a failure. ValueError: the host name cannot be encoded. Any unknown exception is a bug here,
        which must not leave the client waiting forever."""
        plane, now = self._services.plane, self._services.now()
        if not isinstance(error, OSError | ValueError | ShortageError):
            log.exception("connecting to %s", self._connections.endpoint.address)
        if isinstance(error, ConnectionRefusedError):
            plane.engine_restarted(self._load)  # its process has ended, and its cache with it
        if self._caller is not None:
            self._caller.connect_failed(error, now)
        elif not isinstance(error, ShortageError):
            plane.health.failed(self._pool, self._load, "connect", now)

    def _is_slow(self, due_at: float) -> None:
        """Report a slow connection. If this call is late, the gateway itself was busy, and the connection may
        be ready: check again later."""
        if self._caller is None or self._task is None:
            return
        now = self._services.now()
        if now - due_at > _LATE_S:
            self._services.loop.call_later(_LATE_S, self._is_slow, now + _LATE_S)
        else:
            self._caller.connects_slowly(now)
