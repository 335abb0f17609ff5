"""The signals of each pool on the metrics page, for autoscalers that read Prometheus.

`GET /signals` has the same for those that follow gateways directly.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from headgate.requests import pool_signals
from headgate.telemetry import Counter, Gauge, Registry

if TYPE_CHECKING:
    from headgate.dataplane.queueing import Queues
    from headgate.requests.data_plane import DataPlane

_Samples = list[tuple[tuple[str, ...], float]]


class Process(Protocol):
    """A process with pools and their queues."""

    @property
    def plane(self) -> DataPlane: ...
    @property
    def queues(self) -> Queues: ...
    def now(self) -> float: ...


def add_gauges(registry: Registry, process: Process, prefix: str) -> None:
    """Add the signals of all pools; the active requests are there already."""
    read = _Reader(process)
    prefix, of_pools = f"{prefix}_pool", ("pool",)
    registry.add(
        Gauge(
            f"{prefix}_requests_running",
            "Requests on their way to an endpoint or there.",
            of_pools,
            read.running,
        ),
        Gauge(f"{prefix}_requests_waiting", "Requests in the queue.", of_pools, read.waiting),
        Counter(
            f"{prefix}_arrivals",
            "Requests that the limits of their route admitted, however they ended.",
            of_pools,
            read.arrivals,
        ),
        Counter(
            f"{prefix}_prompt_tokens",
            "Tokens of the prompts that arrived, whether a cache has them or not.",
            of_pools,
            read.prompt_tokens,
        ),
        Counter(
            f"{prefix}_cached_prompt_tokens",
            "Those that a cache was expected to have.",
            of_pools,
            read.cached_tokens,
        ),
        Counter(
            f"{prefix}_output_tokens",
            "Tokens that the responses to requests that arrived are expected to have.",
            of_pools,
            read.output_tokens,
        ),
        Gauge(
            f"{prefix}_work_seconds",
            "Predicted seconds of a replica's time that the requests need, for each second.",
            of_pools,
            read.work,
        ),
        Gauge(
            f"{prefix}_kv_usage_ratio",
            "Mean share of the KV caches in use; only where engines report it.",
            of_pools,
            read.kv_usage,
            over="max",
        ),
        Counter(
            f"{prefix}_first_token_objectives",
            "Streamed requests that ended and had an objective for their first token (x-slo-ttft-ms); result "
            "is met or missed.",
            (*of_pools, "result"),
            read.objectives,
        ),
        Counter(
            f"{prefix}_timed_requests",
            "Streamed requests of two tokens or more that were served to their end.",
            of_pools,
            read.timed_requests,
        ),
        Counter(
            f"{prefix}_first_token_seconds",
            "Sum of their times from sending to the first token: without the queue of the gateway.",
            of_pools,
            read.first_token_seconds,
        ),
        Counter(f"{prefix}_timed_tokens", "Their tokens after the first ones.", of_pools, read.timed_tokens),
        Counter(
            f"{prefix}_inter_token_seconds",
            "Sum of the times that these tokens took.",
            of_pools,
            read.inter_token_seconds,
        ),
        Gauge(
            f"{prefix}_last_request_timestamp_seconds",
            "When the pool last had a request, or became known, in seconds since 1970; now while it has one.",
            of_pools,
            read.last_request,
            over="max",
        ),
        Gauge(
            f"{prefix}_starts_from_zero",
            "1 if the pool may have no endpoints until requests come (headgate.dev/scale-from-zero), 0 "
            "otherwise.",
            of_pools,
            read.starts_from_zero,
            over="max",
        ),
    )


class _Reader:
    """Returns the samples of each metric."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def running(self) -> _Samples:
        return [
            ((pool.name,), pool_signals.running(pool, self._process.queues.of(pool)))
            for pool in self._process.plane.pools.values()
        ]

    def waiting(self) -> _Samples:
        return [((queue.name,), queue.held) for queue in self._process.queues.all()]

    def arrivals(self) -> _Samples:
        return [((pool.name,), pool.traffic.arrived) for pool in self._process.plane.pools.values()]

    def prompt_tokens(self) -> _Samples:
        traffics = [(pool.name, pool.traffic) for pool in self._process.plane.pools.values()]
        return [((name,), traffic.prompt_tokens + traffic.cached_tokens) for name, traffic in traffics]

    def cached_tokens(self) -> _Samples:
        return [((pool.name,), pool.traffic.cached_tokens) for pool in self._process.plane.pools.values()]

    def output_tokens(self) -> _Samples:
        return [((pool.name,), pool.traffic.output_tokens) for pool in self._process.plane.pools.values()]

    def work(self) -> _Samples:
        now, queues = self._process.now(), self._process.queues
        return [
            ((pool.name,), pool_signals.work_seconds(pool, queues.of(pool), now))
            for pool in self._process.plane.pools.values()
        ]

    def kv_usage(self) -> _Samples:
        known = [(pool.name, pool_signals.kv_usage(pool)) for pool in self._process.plane.pools.values()]
        return [((name,), usage) for name, usage in known if usage is not None]

    def objectives(self) -> _Samples:
        found: _Samples = []
        for pool in self._process.plane.pools.values():
            traffic = pool.traffic
            if traffic.objectives:
                found.append(((pool.name, "met"), traffic.objectives - traffic.misses))
                found.append(((pool.name, "missed"), traffic.misses))
        return found

    def timed_requests(self) -> _Samples:
        return [((pool.name,), pool.traffic.times.requests) for pool in self._process.plane.pools.values()]

    def first_token_seconds(self) -> _Samples:
        return [((pool.name,), pool.traffic.times.ttft_s) for pool in self._process.plane.pools.values()]

    def timed_tokens(self) -> _Samples:
        return [((pool.name,), pool.traffic.times.tokens) for pool in self._process.plane.pools.values()]

    def inter_token_seconds(self) -> _Samples:
        return [((pool.name,), pool.traffic.times.tokens_s) for pool in self._process.plane.pools.values()]

    def last_request(self) -> _Samples:
        now, now_since_1970 = self._process.now(), time.time()
        return [
            ((pool.name,), now_since_1970 - (pool.traffic.idle_s(now) or 0.0))
            for pool in self._process.plane.pools.values()
        ]

    def starts_from_zero(self) -> _Samples:
        return [
            ((pool.name,), int(pool.pool.start is not None)) for pool in self._process.plane.pools.values()
        ]
