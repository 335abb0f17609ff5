"""RequestMirror filters: a copy of a request for another backend, whose response is ignored.

A copy is sent once the body is there, so it never slows the request down. Copies are bounded in size, number
and time, and count in the memory of bodies; those that exceed a bound are not sent, and counted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headgate import api
from headgate.gateway.connections import EndpointConnections, ShortageError
from headgate.gateway.gateway_api import changes
from headgate.routing.gateway_api import ServicePort

if TYPE_CHECKING:
    from headgate.gateway.fast_path import FastPath
    from headgate.gateway.gateway_api.changes import Asked
    from headgate.gateway.gateway_api.shared import Shared
    from headgate.gateway.gateway_api.task import Task
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.client import Header
    from headgate.routing.gateway_api import Backend

MAX_BYTES: Final = 1 << 20
"""Of the body of a request that is copied."""
MAX_AT_ONCE: Final = 64
"""Copies of one process that wait for their response."""
TIMEOUT_S: Final = 30.0


class Mirrors:
    """The copies of one request."""

    def __init__(self, task: Task, asked: Asked, backends: tuple[Backend, ...]) -> None:
        self._task = task
        self._asked = asked
        self._backends = backends
        self._memory = task.shared.services.bodies
        self._body: list[bytes] = []
        self._size = 0
        self.held_bytes = 0
        """Of the body, as counted in the memory of bodies."""

    def add(self, data: bytes) -> None:
        """Part of the body arrived."""
        if self._backends:
            self._size += len(data)
            self._body.append(data)
            self._memory.recount(self, self._size)
            if self._size > MAX_BYTES:
                self._task.shared.metrics.mirrored("too_large")
                self.drop()
            elif self._memory.is_exceeded_by(self._size):
                self._task.shared.metrics.mirrored("no_memory")
                self.drop()

    def end(self) -> None:
        """The body is complete: send the copies."""
        task, shared = self._task, self._task.shared
        for backend in self._backends:
            connections = _connections(shared, backend, task.arrived_at)
            if connections is None:
                shared.metrics.mirrored("no_endpoint")
            elif shared.mirrors_in_flight >= MAX_AT_ONCE:
                shared.metrics.mirrored("too_many")
            elif not self._memory.has_room(self._size):
                shared.metrics.mirrored("no_memory")
            else:
                framing = b"content-length: %d\r\n" % self._size if self._size else b""
                head = changes.forwarded(
                    task.head.method, self._asked, task.client.peer, task.request_id, framing
                )
                copy = _Copy(shared, head + b"".join(self._body))
                shared.services.background.spawn(copy.send(connections))
        self.drop()

    def drop(self) -> None:
        """Send no copies any more."""
        self._backends, self._body = (), []
        self._memory.release(self)


def begin(task: Task, asked: Asked) -> Mirrors:
    """The copies of a request, by the filters of its rule."""
    assert task.entry is not None
    rule, rng = task.entry.rule, task.shared.rng
    drawn = tuple(
        rule.mirrored[each.backend]
        for each in rule.filters.mirrors
        if each.numerator >= each.denominator or rng.random() * each.denominator < each.numerator
    )
    return Mirrors(task, asked, drawn)


def _connections(shared: Shared, backend: Backend, now: float) -> EndpointConnections | None:
    """Connections to an endpoint of a backend; None if there is none."""
    if isinstance(backend, ServicePort):
        service = shared.entry_points.services.get(backend)
        endpoint = shared.balancer.pick(service, (), now) if service is not None else None
        return shared.connections_to(service, endpoint) if service is not None and endpoint else None
    if isinstance(backend, api.ObjectRef):
        pool = shared.services.plane.pools.get(backend)
        if pool is not None and pool.loads:
            return shared.services.connections_to(pool, shared.rng.choice(pool.loads))
    return None


class _Copy:
    """One copy, as the sender of a request that ignores its response."""

    def __init__(self, shared: Shared, message: bytes) -> None:
        self._shared = shared
        self._message = message
        self.held_bytes = 0
        shared.services.bodies.recount(self, len(message))
        self._is_over = asyncio.Event()
        self._upstream: UpstreamConnection | None = None
        self.now = shared.services.now

    async def send(self, connections: EndpointConnections) -> None:
        """Send it, and wait until the response is over."""
        shared, outcome = self._shared, "sent"
        shared.mirrors_in_flight += 1
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._upstream = connections.take() or await connections.connect()
                self._upstream.send(self, self._message)
                await self._is_over.wait()
        except (OSError, ValueError, ShortageError):
            outcome = "unreachable" if self._upstream is None else "timeout"
        finally:
            shared.mirrors_in_flight -= 1
            shared.services.bodies.release(self)
            shared.metrics.mirrored(outcome)
            if not self._is_over.is_set() and self._upstream is not None:
                self._upstream.abort()

    # -- as the upstream connection reports it

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        pass

    def forward(self, data: bytes, now: float) -> None:
        pass

    def fast_path(self, data: bytes) -> FastPath | None:
        return None

    def finished(self, now: float) -> None:
        self._is_over.set()

    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None:
        self._is_over.set()

    def upstream_broke(self, message: str) -> None:
        self._is_over.set()
