"""Saturation detectors as filters: drop endpoints above their limit, unless that would drop all."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.plugins import signals
from headgate.scheduling.plugins.parameters import Producer, unused
from headgate.scheduling.plugins.plugin import Cycle, Filter, Loads

Headroom = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class UtilizationDetectorParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    queue_depth_threshold: Positive = 5.0
    kv_cache_util_threshold: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    metrics_staleness_threshold: Annotated[
        str, unused("as a filter: a reading that is too old is dropped by the gateway, for all policies")
    ] = "200ms"
    headroom: Headroom = 0.0


class UtilizationDetector(Filter):
    """Drops endpoints where max(waiting / `queueDepthThreshold`, KV usage / `kvCacheUtilThreshold`) is above
    1 + `headroom`; none if that would be all."""

    kind = "utilization-detector"
    Parameters = UtilizationDetectorParameters

    def __init__(self, parameters: UtilizationDetectorParameters | None = None) -> None:
        super().__init__()
        said = parameters or UtilizationDetectorParameters()
        self._most_waiting = said.queue_depth_threshold * (1.0 + said.headroom)
        self._most_used = said.kv_cache_util_threshold * (1.0 + said.headroom)

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        figures = zip(loads, signals.waiting(loads), signals.kv_usage(loads), strict=True)
        kept = [load for load, q, kv in figures if q <= self._most_waiting and kv <= self._most_used]
        return kept or loads


class ConcurrencyDetectorParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    mode: Literal["requests", "tokens", "hybrid"] = "requests"
    capacity_mode: Annotated[Literal["requests", "tokens", "hybrid"], unused("say mode")] = "requests"
    max_concurrency: Positive = 100.0
    max_token_concurrency: Positive = 1_000_000.0
    headroom: Headroom = 0.0
    in_flight_load_producer_name: Producer = ""


class ConcurrencyDetector(Filter):
    """Drops endpoints with more than `maxConcurrency` requests, or `maxTokenConcurrency` tokens to prefill,
    in flight, each x (1 + `headroom`); none if that would be all."""

    kind = "concurrency-detector"
    Parameters = ConcurrencyDetectorParameters

    def __init__(self, parameters: ConcurrencyDetectorParameters | None = None) -> None:
        super().__init__()
        said = parameters or ConcurrencyDetectorParameters()
        self._mode = said.mode
        self._most_requests = said.max_concurrency * (1.0 + said.headroom)
        self._most_tokens = said.max_token_concurrency * (1.0 + said.headroom)

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        return [load for load in loads if self._fits(load)] or loads

    def _fits(self, load: EndpointState) -> bool:
        fits = load.requests <= self._most_requests or self._mode == "tokens"
        return fits and (load.prefill_tokens <= self._most_tokens or self._mode == "requests")
