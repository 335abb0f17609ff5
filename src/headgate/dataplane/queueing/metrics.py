"""Metrics of queued requests, and of the cost of queueing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from headgate.telemetry import Counter, Histogram, LabelValues, Registry
from headgate.telemetry.metrics import OTHER

if TYPE_CHECKING:
    from collections.abc import Collection

    from headgate.flow.queue import Waiting
    from headgate.requests.pool_state import PoolState
    from headgate.requests.queueing.kinds import Kind
    from headgate.requests.wait import Wait
    from headgate.telemetry.metrics import CounterChild, HistogramChild

MAX_PRIORITIES = 64
"""Priorities with their own series: objectives may have any number."""
MAX_FLOWS = 100
"""Flows with their own series: clients can invent names."""
MAX_MODELS = 500
"""Models and adapters with their own series; each has dozens."""
MAX_TOGETHER = 2000
"""Combinations of priority, flow, model and target with their own series: clients choose all four, and have
far more combinations than values of each. In further combinations, the flow is `other`."""
MAX_BOUND = 2000
"""Kinds of ends whose series are cached; beyond this number, the cache is cleared."""
COST_S = (
    0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
)  # fmt: skip
"""Bucket bounds for the gateway's own time: llm-d's for decisions, and some below."""
START_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1200.0)
"""Bucket bounds for starts of engines."""

_End: TypeAlias = "tuple[str, str, Kind]"
"""Pool, outcome, and kind of request."""


class WaitMetrics:
    """Counts waits and their ends. Requests that are sent immediately are not counted, and cost nothing
    here."""

    def __init__(self, registry: Registry, models: LabelValues, prefix: str) -> None:
        """`models`: those with their own series."""
        labels = ("pool", "priority", "outcome")
        prefix = f"{prefix}_flow_control"
        self._priorities = LabelValues(MAX_PRIORITIES)
        self._flows = LabelValues(MAX_FLOWS)
        self._models = models
        self._targets = LabelValues(MAX_MODELS)
        self._together: set[tuple[str, ...]] = set()
        """Labels of the combinations with their own series."""
        self._ends: dict[_End, tuple[CounterChild, HistogramChild]] = {}
        """Cached series by kind of end: thousands may come at once."""
        self.requests = Counter(
            f"{prefix}_requests",
            "Requests that needed to queue, by outcome: dispatched, or the reason why they were dropped, as "
            "in x-headgate-dropped-reason.",
            labels,
        )
        self.duration = Histogram(
            f"{prefix}_request_queue_duration_seconds",
            "Time in the queue; flow is the tenant, model the requested model, and target_model the model "
            "name sent to the endpoint.",
            (*labels, "flow", "model", "target_model"),
        )
        self.enqueueing = Histogram(
            f"{prefix}_request_enqueue_duration_seconds",
            "Time that the gateway took to queue a request; the outcome is held, or why it was dropped.",
            (*labels, "flow"),
            COST_S,
        )
        self.starts = Histogram(
            f"{prefix}_start_wait_seconds",
            "Time that requests waited while their pool had no endpoint, by what became of them: dispatched, "
            "or why they were dropped.",
            ("pool", "outcome"),
            START_S,
        )
        self.looks = Histogram(
            f"{prefix}_dispatch_cycle_duration_seconds",
            "Time that the gateway took for one pass over a queue, in which it dispatches up to 64 requests.",
            (),
            COST_S,
        )
        self.look = self.looks.labels()
        self.evictions = Counter(
            f"{prefix}_evictions",
            "Requests evicted from their endpoint before its response, in favor of queued ones.",
            ("pool", "priority"),
        )
        registry.add(self.requests, self.duration, self.enqueueing, self.starts, self.looks, self.evictions)

    def entered(self, pool: PoolState, place: Waiting, outcome: str, took_s: float) -> None:
        """A request has reached the queue."""
        priority, flow = self._priorities.value(str(place.priority)), self._flows.value(place.flow)
        self.enqueueing.labels(pool.name, priority, outcome, flow).observe(took_s)

    def ended(self, pool: PoolState, wait: Wait, outcome: str, now: float) -> None:
        """A request has left the queue."""
        labels = pool.name, outcome, wait.kind
        requests, duration = self._ends.get(labels) or self._bind(labels)
        requests.value += 1
        duration.observe(now - wait.begun_at)
        if wait.is_for_endpoint:
            self.starts.labels(pool.name, outcome).observe(wait.start_seconds(now))

    def _bind(self, labels: _End) -> tuple[CounterChild, HistogramChild]:
        pool, outcome, kind = labels
        priority = self._priorities.value(str(kind.priority))
        flow, model, target = self._told_apart(pool, priority, kind)
        if len(self._ends) >= MAX_BOUND:
            self._ends.clear()
        bound = self._ends[labels] = (
            self.requests.labels(pool, priority, outcome),
            self.duration.labels(pool, priority, outcome, flow, model, target),
        )
        return bound

    def _told_apart(self, pool: str, priority: str, kind: Kind) -> tuple[str, str, str]:
        """Label values for flow, model and target."""
        flow, model = self._flows.value(kind.flow), self._models.value(kind.model)
        target = self._targets.value(kind.target)
        together = pool, priority, flow, model, target
        if together not in self._together:
            if len(self._together) >= MAX_TOGETHER:
                return OTHER, model, target
            self._together.add(together)
        return flow, model, target

    def evicted(self, pool: PoolState, priority: int) -> None:
        self.evictions.labels(pool.name, self._priorities.value(str(priority))).value += 1

    def keep(self, pools: Collection[str], models: Collection[str]) -> None:
        """Delete the series of all other pools and models."""
        for metric in (self.requests, self.duration, self.enqueueing, self.starts, self.evictions):
            metric.keep("pool", pools)
        self.duration.keep("model", models)
        self._together = {each for each in self._together if each[0] in pools and each[3] in models}
        self._ends.clear()
        self._targets.keep(())
