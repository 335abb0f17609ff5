"""The gateway in front of the engines: the data plane that gateways have, with exchanges in virtual time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping

from headgate import fleet, routing, scheduling
from headgate.api import ObjectRef
from headgate.fleet import EndpointState, RetryBudget
from headgate.fleet.prefix import PrefixIndex
from headgate.flow.configuration import Queueing
from headgate.flow.queue import FlowSettings
from headgate.requests.data_plane import DataPlane
from headgate.requests.observer import Unobserved
from headgate.requests.pool_state import PoolState
from headgate.requests.queueing.pool_queue import PoolQueue
from headgate.requests.rules import Rules
from headgate.simulator.fleet.description import FleetDescription
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.exchange import SimulatedExchange
from headgate.simulator.fleet.observer import Observer
from headgate.simulator.fleet.queue_shell import VirtualShell
from headgate.simulator.fleet.records import RequestRecord
from headgate.simulator.fleet.request import TracedRequest
from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.fleet.transfers import SharedLink
from headgate.traffic.traces import TimedRequest

POOL = ObjectRef(routing.MODEL_SERVER, "simulated", "fleet")
PAIR_GROUP = "fleet"


class SimulatedGateway:
    """Has a record for each request that came and has ended."""

    def __init__(
        self,
        description: FleetDescription,
        policy: scheduling.Policy,
        rng: random.Random,
        timeline: Timeline,
        ledger: fleet.Ledger,
        endpoints: Iterable[SimulatedEndpoint],
        prefixes: PrefixIndex,
        observer: Observer,
        answered: Callable[[TimedRequest], None],
        waits: Callable[[], None],
    ) -> None:
        """`answered` is told each request whose client has all that it gets; `waits` that any are waiting."""
        self.timeline = timeline
        self.observer = observer
        self.link = SharedLink(timeline, description.link_bytes_per_s, description.link_latency_s)
        self.records: dict[int, RequestRecord] = {}
        self.unfinished = 0
        self._answered = answered
        self._description = description
        self._endpoints: Mapping[EndpointState, SimulatedEndpoint] = {
            ledger.load(each.load.endpoint): each for each in endpoints
        }
        nobody = Unobserved()
        self.plane = DataPlane(
            _rules(description),
            rng,
            nobody,
            nobody,
            ledger=ledger,
            prefixes=prefixes,
            policies=_OnePolicy(policy, prefixes),
        )
        self._waits = waits
        self._queue: PoolQueue | None = None
        self._pool = self._use_pool()
        self.budget = self._pool.budget = RetryBudget(timeline.now, description.retry_budget)

    def endpoint(self, load: EndpointState) -> SimulatedEndpoint:
        return self._endpoints[load]

    def follow_readiness(self) -> None:
        """The pool is those of the endpoints that are ready."""
        self._pool = self._use_pool()

    def _use_pool(self) -> PoolState:
        ready = [each for each in self._endpoints.values() if each.is_ready]
        pool = self.plane.use_pool(
            routing.Pool(
                key=POOL,
                endpoints=tuple(each.load.endpoint for each in ready),
                labels={each.load.endpoint: each.group.labels for each in ready},
                weights={each.load.endpoint: each.group.weight for each in ready},
                phases=self._phases(ready),
            ),
            self.timeline.now,
        )
        if self._description.flow is not None:
            self._use_queue(self._description.flow, pool)
        return pool

    def _use_queue(self, flow: FlowSettings, pool: PoolState) -> None:
        now = self.timeline.now
        if self._queue is None:
            queueing = Queueing(flow=flow, capacity=self._description.capacity)
            shell = VirtualShell(self.timeline, self._queue_looked)
            pool.queue = self._queue = PoolQueue(self.plane, pool, queueing, shell, now)
        else:
            pool.queue = self._queue
            self._queue.use(pool, now)

    def _queue_looked(self) -> None:
        if self._queue is not None and self._queue.held:
            self._waits()

    def _phases(self, ready: Iterable[SimulatedEndpoint]) -> routing.PrefillDecode | None:
        """What each endpoint does, where prefill and decode are apart."""
        if not self._description.is_paired:
            return None
        roles = {
            each.load.endpoint: routing.Role(
                prefills=each.group.role != "decode", decodes=each.group.role != "prefill", group=PAIR_GROUP
            )
            for each in ready
        }
        return routing.PrefillDecode(connector="nixl", roles=roles)

    def refresh_endpoints(self) -> None:
        """An endpoint was ejected: nothing that waits counts on it."""
        if self._queue is not None:
            self._queue.refresh_endpoints(self.timeline.now)

    def sweep(self) -> None:
        """Called once a second: an endpoint may have come back."""
        self._pool.traffic.sweep(self.timeline.now)
        if self._queue is not None:
            self._queue.sweep(self.timeline.now)

    def look_at_queue(self) -> None:
        """Something has happened by which there may be room for one that waits."""
        if self._queue is not None:
            self._queue.room_made()

    def arrive(self, number: int, timed: TimedRequest) -> None:
        """A client sends a request."""
        self.unfinished += 1
        SimulatedExchange(self, TracedRequest(number, timed), self._pool).start()

    def ended(self, exchange: SimulatedExchange) -> None:
        """Its client has all that it gets."""
        self.records[exchange.request.number] = exchange.record()
        self.unfinished -= 1
        self._answered(exchange.request.timed)
        self.look_at_queue()


class _OnePolicy:
    """The one that is tried out, for the one pool."""

    def __init__(self, policy: scheduling.Policy, prefixes: PrefixIndex) -> None:
        self._policy = policy
        self.decoding: scheduling.Policy = scheduling.LeastDecoding(prefixes)

    def of(self, pool: routing.Pool) -> scheduling.Policy:
        return self._policy

    def shown(self, pools: Iterable[tuple[routing.Pool, scheduling.Policy]]) -> dict[str, object]:
        return {}


def _rules(description: FleetDescription) -> Rules:
    return Rules(
        max_requests=description.max_requests,
        retries=description.retries,
        response_timeout_s=math.inf,
        stream_response_timeout_s=math.inf,
        idle_timeout_s=math.inf,
        remote_min_tokens=description.remote_tokens,
        ask_tokens_again_s=0.0,
        believes_objectives=True,
        policy="",
    )
