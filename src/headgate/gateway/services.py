"""What all connections of one gateway process share besides the decisions: settings, loop, memory."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from headgate.fleet import EndpointState
from headgate.gateway import large_reader, trace
from headgate.gateway.bodies import BodyMemory
from headgate.gateway.connections import Connections, EndpointConnections, Reached
from headgate.gateway.inflating import Inflating
from headgate.gateway.model_list import ModelList
from headgate.gateway.policy import ClientPolicy
from headgate.gateway.recorder import Recorder
from headgate.gateway.request import Request
from headgate.gateway.settings import GatewaySettings
from headgate.loop_turns import Closings, Turns
from headgate.quota.sources import Sources
from headgate.requests.data_plane import DataPlane
from headgate.requests.pool_state import PoolState


class LeftBehind(Protocol):
    """What goes on for a while after its request."""

    def drop(self) -> None:
        """Ends it at once."""


class RequestIds:
    """Ids that are unique over all gateways: random for the process, then counted."""

    __slots__ = ("_count", "_prefix")

    def __init__(self) -> None:
        self._prefix = os.urandom(6).hex().encode() + b"-"
        self._count = 0

    def next(self) -> bytes:
        self._count += 1
        return self._prefix + b"%x" % self._count


class Services:
    """Owned by a Shell, which sets what has no value yet before the first connection."""

    plane: DataPlane
    limit_sources: Sources

    def __init__(
        self,
        settings: GatewaySettings,
        recorder: Recorder,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
    ) -> None:
        self.settings = settings
        self.policy = ClientPolicy(settings)
        self.recorder = recorder
        self.loop = loop
        self.now: Callable[[], float] = loop.time
        self.rng = rng
        self.bodies = BodyMemory(settings.clients.max_bodies_bytes, settings.clients.max_body_bytes)
        self.large_bodies = large_reader.Reader(loop)
        self.uploads = Turns(loop)
        self.downloads = Turns(loop)
        self.closings = Closings(loop)
        self.inflating = Inflating()
        self.connections = Connections(settings, self.uploads, self.downloads)
        self.models = ModelList()
        self.stopping = False
        """Whether readiness says no, for good."""
        self.leaving = False
        """Whether connections end with their next answer, which says so: what their client sends next must
        not cross with the close."""
        self.draining = False
        """Whether connections without a request are closed."""
        self.left_behind: set[LeftBehind] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.new_request_id: Callable[[], bytes] = RequestIds().next

    def change(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.policy = ClientPolicy(settings)
        self.bodies.change(settings.clients.max_bodies_bytes, settings.clients.max_body_bytes)
        self.connections.change(settings)

    @property
    def is_ready(self) -> bool:
        """Whether requests are to come here."""
        return self.plane.is_ready and not self.stopping

    def connections_to(self, pool: PoolState, load: EndpointState) -> EndpointConnections:
        """Those that requests of a pool go to an endpoint on."""
        connections: EndpointConnections | None = pool.connections.get(load)
        if connections is None:
            reached = Reached(load.endpoint, pool.pool.tls, pool.pool.http2)
            connections = pool.connections[load] = self.connections.to(reached)
        return connections

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts work that may outlast the caller; `close` cancels what is left."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def begin_trace(self, request: Request) -> None:
        """Begins a trace for its share of the requests that have none."""
        if not trace.trace_id(request.traceparent) and self.rng.random() < self.settings.tracing.sample_ratio:
            request.begin_trace(trace.begin(self.rng))

    async def close(self) -> None:
        self.closings.close_all()
        for each in list(self.left_behind):
            each.drop()
        self.connections.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.large_bodies.close()
