"""What is counted of requests that waited, and read of the queues whenever somebody scrapes."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.telemetry import Counter, Gauge, Histogram, LabelValues, Registry
from headgate.telemetry.metrics import OTHER

if TYPE_CHECKING:
    from headgate.gateway.pool_state import PoolState
    from headgate.gateway.queueing.pool_queue import PoolQueue
    from headgate.gateway.queueing.queues import Queues
    from headgate.gateway.queueing.wait import Wait

PREFIX = "headgate_gateway_flow_control"
MAX_PRIORITIES = 64
"""Priorities with series of their own: objectives may have any number."""
MAX_FLOWS = 100
"""Flows with series of their own, those that wait with most requests first: clients make up names."""

_Samples = list[tuple[tuple[str, ...], float]]


class WaitMetrics:
    """Counts the ends of waits. Requests that go at once are not among them."""

    def __init__(self, registry: Registry) -> None:
        labels = ("pool", "priority", "outcome")
        self._priorities = LabelValues(MAX_PRIORITIES)
        self.requests = Counter(
            f"{PREFIX}_requests",
            "Requests that had to wait, or wanted to, by what became of that: dispatched, or the reason why "
            "they were dropped, as x-headgate-dropped-reason has it.",
            labels,
        )
        self.duration = Histogram(
            f"{PREFIX}_request_queue_duration_seconds", "How long they waited for their turn.", labels
        )
        self.evictions = Counter(
            f"{PREFIX}_evictions",
            "Requests that were taken back from their endpoint before its answer, for others that waited.",
            ("pool", "priority"),
        )
        registry.add(self.requests, self.duration, self.evictions)

    def ended(self, pool: PoolState, wait: Wait, outcome: str, now: float) -> None:
        priority = self._priorities.value(str(wait.place.priority))
        self.requests.labels(pool.name, priority, outcome).value += 1
        self.duration.labels(pool.name, priority, outcome).observe(wait.seconds(now))

    def evicted(self, pool: PoolState, priority: int) -> None:
        self.evictions.labels(pool.name, self._priorities.value(str(priority))).value += 1

    def keep(self, pools: set[str]) -> None:
        """Ends the series of other pools."""
        for metric in (self.requests, self.duration, self.evictions):
            metric.keep("pool", pools)


def add_gauges(registry: Registry, queues: Queues) -> None:
    """Adds how the queues are."""
    read = _Reader(queues)
    of_bands = ("pool", "priority")
    registry.add(
        Gauge(
            f"{PREFIX}_queue_size",
            "Requests that wait for their turn; flow is whose they are, the smaller ones are `other`.",
            (*of_bands, "flow"),
            read.sizes,
        ),
        Gauge(f"{PREFIX}_queue_bytes", "Bytes of their bodies.", of_bands, read.bytes),
        Gauge(
            f"{PREFIX}_waiting_for_endpoints",
            "Requests that wait because their pool has no ready endpoint.",
            ("pool",),
            read.starved,
        ),
        Gauge(
            f"{PREFIX}_pool_saturation",
            "How full a pool is; from 1 on requests wait. Where prefill and decode are apart, the stage is "
            "prefill or decode, and else all.",
            ("pool", "stage"),
            read.saturation,
            over="max",
        ),
        Gauge(
            f"{PREFIX}_capacity_utilization_requests",
            "Share of queue_band_max_requests that is taken, where that is a limit.",
            of_bands,
            read.band_requests,
            over="max",
        ),
        Gauge(
            f"{PREFIX}_capacity_utilization_bytes",
            "Share of queue_band_max_bytes that is taken, where that is a limit.",
            of_bands,
            read.band_bytes,
            over="max",
        ),
        Gauge(
            f"{PREFIX}_global_capacity_utilization_requests",
            "Share of queue_max_requests that is taken, where that is a limit.",
            ("pool",),
            read.all_requests,
            over="max",
        ),
        Gauge(
            f"{PREFIX}_global_capacity_utilization_bytes",
            "Share of queue_max_bytes that is taken, where that is a limit.",
            ("pool",),
            read.all_bytes,
            over="max",
        ),
    )


class _Reader:
    """Gives the samples of each gauge."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def sizes(self) -> _Samples:
        waiting = Tally(
            (queue.name, str(wait.place.priority), wait.place.flow)
            for queue in self._queues.all()
            for wait in queue.waits()
        )
        found: Tally[tuple[str, ...]] = Tally()
        for place, ((pool, priority, flow), count) in enumerate(waiting.most_common()):
            found[pool, priority, flow if place < MAX_FLOWS else OTHER] += count
        return list(found.items())

    def bytes(self) -> _Samples:
        return [
            ((queue.name, str(priority)), size)
            for queue in self._queues.all()
            for priority, (_, size) in _bands(queue)
        ]

    def starved(self) -> _Samples:
        return [((queue.name,), queue.held if queue.is_empty else 0) for queue in self._queues.all()]

    def saturation(self) -> _Samples:
        return [
            ((queue.name, stage), saturation)
            for queue in self._queues.all()
            for stage, saturation in queue.saturation().items()
        ]

    def band_requests(self) -> _Samples:
        return [
            ((queue.name, str(priority)), count / most)
            for queue in self._queues.all()
            for priority, (count, _) in _bands(queue)
            if (most := queue.settings.band_of(priority).max_requests)
        ]

    def band_bytes(self) -> _Samples:
        return [
            ((queue.name, str(priority)), size / most)
            for queue in self._queues.all()
            for priority, (_, size) in _bands(queue)
            if (most := queue.settings.band_of(priority).max_bytes)
        ]

    def all_requests(self) -> _Samples:
        return [
            ((queue.name,), queue.held / most)
            for queue in self._queues.all()
            if (most := queue.settings.max_requests)
        ]

    def all_bytes(self) -> _Samples:
        return [
            ((queue.name,), sum(wait.place.size for wait in queue.waits()) / most)
            for queue in self._queues.all()
            if (most := queue.settings.max_bytes)
        ]


def _bands(queue: PoolQueue) -> Iterator[tuple[int, tuple[int, int]]]:
    """Of each priority of which requests wait: how many, and their bytes."""
    found: dict[int, tuple[int, int]] = {}
    for wait in queue.waits():
        count, size = found.get(wait.place.priority, (0, 0))
        found[wait.place.priority] = (count + 1, size + wait.place.size)
    yield from found.items()
