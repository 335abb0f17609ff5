"""Metrics of the queues that are read at scrape time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.dataplane.queueing.metrics import MAX_FLOWS
from headgate.telemetry import Gauge, Registry
from headgate.telemetry.metrics import OTHER

if TYPE_CHECKING:
    from headgate.dataplane.queueing.queues import Queues

_Samples = list[tuple[tuple[str, ...], float]]


def add_gauges(registry: Registry, queues: Queues, prefix: str) -> None:
    """Add the gauges of the queues."""
    read = _Reader(queues)
    prefix = f"{prefix}_flow_control"
    of_bands = ("pool", "priority")
    of_flows = (*of_bands, "flow", "model", "target_model")
    registry.add(
        Gauge(
            f"{prefix}_queue_size",
            "Queued requests; flow is the tenant, and smaller flows are `other`.",
            of_flows,
            read.sizes,
        ),
        Gauge(f"{prefix}_queue_bytes", "Bytes of the bodies of queued requests.", of_flows, read.bytes),
        Gauge(
            f"{prefix}_waiting_for_endpoints",
            "Requests queued because their pool has no ready endpoint.",
            ("pool",),
            read.starved,
        ),
        Gauge(
            f"{prefix}_pool_saturation",
            "How full a pool is; from 1 on, requests are queued. Stage is all and, with separate prefill "
            "and decode, also prefill and decode; all is the fuller of them.",
            ("pool", "stage"),
            read.saturation,
            over="max",
        ),
        Gauge(
            f"{prefix}_stale_endpoints",
            "Endpoints without a reading that is fresh enough for the saturation detector.",
            ("pool", "detector"),
            read.stale,
            over="max",
        ),
        Gauge(
            f"{prefix}_capacity_utilization_requests",
            "Share of queue.band_max_requests in use, if it is a limit.",
            of_bands,
            read.band_requests,
        ),
        Gauge(
            f"{prefix}_capacity_utilization_bytes",
            "Share of queue.band_max_bytes in use, if it is a limit.",
            of_bands,
            read.band_bytes,
        ),
        Gauge(
            f"{prefix}_global_capacity_utilization_requests",
            "Share of queue.max_requests in use, if it is a limit.",
            ("pool",),
            read.all_requests,
        ),
        Gauge(
            f"{prefix}_global_capacity_utilization_bytes",
            "Share of queue.max_bytes in use, if it is a limit.",
            ("pool",),
            read.all_bytes,
        ),
    )


class _Reader:
    """Returns the samples of each gauge."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def sizes(self) -> _Samples:
        return [(of, count) for of, (count, _) in self._of_flows().items()]

    def bytes(self) -> _Samples:
        return [(of, size) for of, (_, size) in self._of_flows().items()]

    def _of_flows(self) -> dict[tuple[str, ...], tuple[int, int]]:
        """The number of queued requests of each kind, and their bytes."""
        sizes = [
            (queue.name, kind, count, size)
            for queue in self._queues.all()
            for kind, (count, size) in queue.kinds.sizes()
        ]
        sizes.sort(key=lambda each: -each[2])
        found: dict[tuple[str, ...], tuple[int, int]] = {}
        for place, (pool, kind, count, size) in enumerate(sizes):
            flow = kind.flow if place < MAX_FLOWS else OTHER
            told = (pool, str(kind.priority), flow, kind.model, kind.target)
            before, bytes_before = found.get(told, (0, 0))
            found[told] = (before + count, bytes_before + size)
        return found

    def starved(self) -> _Samples:
        return [((queue.name,), queue.held if queue.room.is_empty else 0) for queue in self._queues.all()]

    def saturation(self) -> _Samples:
        now = self._queues.now()
        return [
            ((queue.name, stage), saturation)
            for queue in self._queues.all()
            for stage, saturation in queue.room.saturation(now).items()
        ]

    def stale(self) -> _Samples:
        now = self._queues.now()
        return [
            ((queue.name, queue.room.detector), queue.room.stale_endpoints(now))
            for queue in self._queues.all()
        ]

    def band_requests(self) -> _Samples:
        return [
            ((queue.name, str(priority)), count / most)
            for queue in self._queues.all()
            for priority, count, _ in queue.bands()
            if (most := queue.settings.band_of(priority).max_requests)
        ]

    def band_bytes(self) -> _Samples:
        return [
            ((queue.name, str(priority)), size / most)
            for queue in self._queues.all()
            for priority, _, size in queue.bands()
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
            ((queue.name,), sum(size for *_, size in queue.bands()) / most)
            for queue in self._queues.all()
            if (most := queue.settings.max_bytes)
        ]
