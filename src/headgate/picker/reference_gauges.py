"""Shows the state of pools under the names of the reference implementation (`llm_d_epp_*`), and those of the
Gateway API Inference Extension (`inference_pool_*`)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING

from headgate.picker.reference_metrics import PREFIX
from headgate.telemetry import Gauge, Registry

if TYPE_CHECKING:
    from headgate.fleet import EngineReading
    from headgate.picker.shell import Shell

_Samples = list[tuple[tuple[str, ...], float]]


def add_gauges(registry: Registry, shell: Shell) -> None:
    """Add the metrics of pools, by the name of the InferencePool."""
    read = _Reader(shell)
    by_name = ("name",)
    registry.add(
        Gauge(f"{PREFIX}_request_running", "Requests at endpoints.", ("model_name",), read.running),
    )
    for prefix, ready, per_endpoint, endpoint in (
        (PREFIX, "ready_endpoints", "per_endpoint_queue_size", "model_server_endpoint"),
        ("inference_pool", "ready_pods", "per_pod_queue_size", "model_server_pod"),
    ):
        registry.add(
            Gauge(f"{prefix}_{ready}", "Ready endpoints of the pool.", by_name, read.ready),
            Gauge(
                f"{prefix}_average_kv_cache_utilization",
                "Mean share of the KV caches in use, from 0 to 1.",
                by_name,
                lambda: read.mean(lambda reading: reading.kv_usage),
            ),
            Gauge(
                f"{prefix}_average_queue_size",
                "Mean number of requests that wait in an engine.",
                by_name,
                lambda: read.mean(lambda reading: reading.waiting),
            ),
            Gauge(
                f"{prefix}_average_running_requests",
                "Mean number of requests that an engine works on.",
                by_name,
                lambda: read.mean(lambda reading: reading.running),
            ),
            Gauge(
                f"{prefix}_{per_endpoint}",
                "Requests that wait in each engine.",
                (*by_name, endpoint),
                read.queues,
            ),
        )


class _Reader:
    """Returns the samples of each gauge."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def running(self) -> _Samples:
        found = Tally(
            stream.life.decision.model
            for stream in self._shell.streams
            if stream.life is not None and stream.life.load is not None
        )
        return [((model,), count) for model, count in found.items()]

    def ready(self) -> _Samples:
        return [((pool.pool.key.name,), len(pool.loads)) for pool in self._shell.plane.pools.values()]

    def mean(self, value: Callable[[EngineReading], float | None]) -> _Samples:
        found: _Samples = []
        for pool in self._shell.plane.pools.values():
            read = [value(load.reading) for load in pool.loads if load.reading is not None]
            known = [each for each in read if each is not None]
            if known:
                found.append(((pool.pool.key.name,), fmean(known)))
        return found

    def queues(self) -> _Samples:
        return [
            ((pool.pool.key.name, load.endpoint.name), load.reading.waiting or 0)
            for pool in self._shell.plane.pools.values()
            for load in pool.loads
            if load.reading is not None
        ]
