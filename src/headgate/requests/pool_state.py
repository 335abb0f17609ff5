"""A pool of the snapshot as the data path sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate import fleet, routing, scheduling
from headgate.fleet.prefix import PrefixIndex, hashing
from headgate.requests.traffic import PoolTraffic

if TYPE_CHECKING:
    from headgate.requests.queue import Queue


class PoolState:
    """A pool of the snapshot with the states of its endpoints, ready for picks."""

    __slots__ = (
        "_default_decoding",
        "adapters",
        "budget",
        "connections",
        "evidence",
        "loads",
        "name",
        "pairs",
        "policy",
        "pool",
        "queue",
        "rates",
        "traffic",
    )

    def __init__(
        self,
        pool: routing.Pool,
        ledger: fleet.Ledger,
        budget: fleet.RetryBudget,
        policy: scheduling.Policy,
        decoding: scheduling.Policy,
        rates: fleet.Rates | None = None,
        evidence: fleet.Evidence | None = None,
        traffic: PoolTraffic | None = None,
    ) -> None:
        self.pool = pool
        self.budget = budget
        self.policy = policy
        self._default_decoding = decoding
        self.rates = rates or fleet.Rates()
        """Used for endpoints that know too little of their own rates."""
        self.evidence = evidence or fleet.Evidence()
        self.traffic = traffic or PoolTraffic(0.0)
        """Counts its requests."""
        self.name = pool.name
        self.loads = [ledger.load(endpoint) for endpoint in pool.endpoints]
        for load in self.loads:
            load.labels = pool.labels.get(load.endpoint, {})
            load.estimator.join(self.rates)
        policy.weigh({ledger.load(endpoint): weight for endpoint, weight in pool.weights.items()})
        self.adapters: frozenset[str] = frozenset()
        """Names that its engines list as adapters; others are names of the model itself."""
        self.note_adapters()
        self.pairs = scheduling.Pairs(self.loads, pool.phases) if pool.phases is not None else None
        """None if every endpoint serves whole requests."""
        self.queue: Queue | None = None
        """Where requests wait for capacity; None if nothing is sent."""
        self.connections: dict[fleet.EndpointState, Any] = {}
        """The shell's connections by picked endpoint; keyed by identity, which is cheaper than comparing
        endpoints."""

    @property
    def decoding(self) -> scheduling.Policy:
        """Picks decoding endpoints in a pool with separate prefill."""
        return self.policy if self.policy.judges_decoding else self._default_decoding

    def not_serving(self, asked: fleet.ModelPath, now: float) -> list[fleet.EndpointState]:
        """Endpoints that recently responded with 404 to requests that others serve, and are otherwise
        healthy."""
        if self.evidence.unserved_until <= now:
            return []
        return [load for load in self.loads if load.models.unserved.get(asked, now) > now]

    def note_adapters(self) -> None:
        """Update the adapters from the engines' latest readings."""
        readings = [load.reading for load in self.loads if load.reading is not None]
        told = [reading for reading in readings if reading.adapters_listed or reading.adapters_running]
        if told or self.adapters:
            listed = (reading.adapters_listed | reading.adapters_running for reading in told)
            self.adapters = frozenset[str]().union(*listed)

    def limit(self, prefixes: PrefixIndex, sizes: fleet.PromptSizes) -> None:
        """Bound the prefixes expected on an endpoint by the size of its engine's cache."""
        if not self.policy.uses_prefix:
            return
        for load in self.loads:
            reading = load.reading
            if reading is not None and reading.blocks and reading.block_tokens:
                bytes_per_token = sizes.bytes_per_token(self.pool.model or "")
                held_bytes = reading.blocks * reading.block_tokens * bytes_per_token
                prefixes.limit(load, max(int(held_bytes) // hashing.BLOCK_BYTES, 1))

    def endpoints_shown(self) -> list[dict[str, str | int]]:
        """For debug pages: the work in flight on each endpoint."""
        return [
            {
                "name": load.endpoint.name,
                "address": load.endpoint.address,
                "requests": load.requests,
                "work_tokens": load.work_tokens,
                "failures": load.failures,
            }
            for load in self.loads
        ]
