"""What all connections of one gateway process share besides the decisions: settings, loop, memory."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable

from headgate.dataplane import large_reader
from headgate.dataplane.background import Background
from headgate.dataplane.bodies import BodyMemory
from headgate.dataplane.credentials.credentials import Credentials
from headgate.dataplane.providers import Providers
from headgate.dataplane.queueing.metrics import WaitMetrics
from headgate.dataplane.records.recorder import Recorder
from headgate.fleet import EndpointState
from headgate.gateway.connections import Connections, EndpointConnections, Reached
from headgate.gateway.inflating import Inflating
from headgate.gateway.model_list import ModelList
from headgate.gateway.policy import ClientPolicy
from headgate.gateway.request import Request
from headgate.gateway.settings import GatewaySettings
from headgate.loop_turns import LoopTurns
from headgate.quota.sources import Sources
from headgate.requests.data_plane import DataPlane
from headgate.requests.pool_state import PoolState
from headgate.telemetry.tracing import context


class RequestIds:
    """Ids that are unique over all gateways: random for the process, then counted."""

    __slots__ = ("_count", "_prefix")

    def __init__(self) -> None:
        self._prefix = os.urandom(6).hex().encode() + b"-"
        self._count = 0

    def next(self) -> bytes:
        self._count += 1
        return self._prefix + b"%x" % self._count


class Identities:
    """Ids of requests and traces."""

    __slots__ = ("_rng", "request_id")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.request_id: Callable[[], bytes] = RequestIds().next
        """Returns a new id."""

    def begin_trace(self, request: Request, ratio: float) -> None:
        """Begin a trace for this share of the requests that have none, without exporting spans."""
        if not context.trace_id(request.traceparent) and self._rng.random() < ratio:
            request.begin_trace(context.begin(self._rng))


class Shutdown:
    """How far a gateway has come with its end."""

    __slots__ = ("is_draining", "is_leaving", "is_stopping")

    def __init__(self) -> None:
        self.is_stopping = False
        """Whether it reports that it is not ready, for good."""
        self.is_leaving = False
        """Whether connections end with their next response, which says so: the client's next request must not
        cross with the close."""
        self.is_draining = False
        """Whether connections without a request are closed."""


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
        self.bodies = BodyMemory(settings.clients.max_bodies_bytes, settings.clients.max_body_bytes)
        self.large_bodies = large_reader.Reader(loop)
        self.turns = LoopTurns(loop)
        self.inflating = Inflating()
        self.connections = Connections(settings, self.turns, Providers(settings.providers))
        self.models = ModelList()
        self.shutdown = Shutdown()
        self.background = Background(loop)
        self.identities = Identities(rng)

    def change(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.policy = ClientPolicy(settings, self.credentials)
        self.credentials.change(settings.auth, settings.scheduling.content)
        self.bodies.change(settings.clients.max_bodies_bytes, settings.clients.max_body_bytes)
        self.connections.change(settings)
        self.providers.change(settings.providers)

    @property
    def credentials(self) -> Credentials:
        """What authenticates clients."""
        return self.policy.credentials

    @property
    def providers(self) -> Providers:
        """External providers, with their keys."""
        return self.connections.providers

    @property
    def waits(self) -> WaitMetrics:
        """Metrics of queued requests."""
        return self.recorder.waits

    @property
    def is_ready(self) -> bool:
        """Whether requests are to come here."""
        return self.plane.is_ready and not self.shutdown.is_stopping

    def connections_to(self, pool: PoolState, load: EndpointState) -> EndpointConnections:
        """Those that requests of a pool go to an endpoint on."""
        connections: EndpointConnections | None = pool.connections.get(load)
        if connections is None:
            reached = Reached(load.endpoint, pool.pool.tls, pool.pool.http2)
            connections = pool.connections[load] = self.connections.to(reached)
        return connections

    async def close(self) -> None:
        self.turns.closings.close_all()
        self.background.drop_left_behind()
        self.connections.close()
        await self.background.close()
        self.large_bodies.close()
