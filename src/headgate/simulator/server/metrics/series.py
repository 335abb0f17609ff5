"""Building blocks of the metrics page: histograms, event counters, and series from readings."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from headgate.simulator.model import (
    Emission,
    EngineConfig,
    EngineStatistics,
    FinishedRequest,
    FinishReason,
    SimulatedRequest,
)

TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_TIME_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
LATENCY_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


def token_count_buckets(largest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50, ... up to the largest possible count."""
    series = (step * 10.0**power for power in range(12) for step in (1, 2, 5))
    return tuple(bound for bound in series if bound <= largest)


class Histogram:
    """Bucket counts. prometheus_client's own histogram takes a lock and microseconds for each token."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, int]]:
        """Cumulative counts by upper bound, in Prometheus format."""
        total = 0
        buckets = []
        for bound, here in zip((*map(repr, self._bounds), "+Inf"), self._counts, strict=True):
            total += here
            buckets.append((bound, total))
        return buckets


# Counters of events, in the model's times, free of timer and socket jitter.
class Timings:
    """Counters and histograms of one data-parallel rank."""

    def __init__(self, max_model_len: int) -> None:
        tokens = token_count_buckets(max_model_len)
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.output_tokens = 0
        self.finished_by_reason: Counter[FinishReason] = Counter({"stop": 0, "length": 0, "abort": 0})
        self.ttft = Histogram(TTFT_BUCKETS)
        """Arrival to first token."""
        self.inter_token = Histogram(TOKEN_TIME_BUCKETS)
        """Time between tokens of a request; tokens of one step count once, as in vLLM."""
        self.tpot = Histogram(TOKEN_TIME_BUCKETS)
        """Mean time per token of a request after the first."""
        self.e2e = Histogram(LATENCY_BUCKETS)
        """Arrival to end."""
        self.queue = Histogram(LATENCY_BUCKETS)
        """Arrival to first step."""
        self.inference = Histogram(LATENCY_BUCKETS)
        """First step to end."""
        self.prefill = Histogram(LATENCY_BUCKETS)
        """First step to first token."""
        self.decode = Histogram(LATENCY_BUCKETS)
        """First token to end."""
        self.prompt_size = Histogram(tokens)
        self.output_size = Histogram(tokens)
        self.asked_size = Histogram(tokens)

    def token(self, emission: Emission, request: SimulatedRequest) -> None:
        self.output_tokens += emission.tokens
        if emission.position:
            self.inter_token.observe(emission.gap_s)
        else:
            self.prompt_tokens += request.prompt_tokens
            self.ttft.observe(emission.gap_s)

    def finished(self, end: FinishedRequest, request: SimulatedRequest) -> None:
        self.finished_by_reason[end.reason] += 1
        self.cached_tokens += end.cached_tokens
        self.e2e.observe(end.finished_s - end.arrived_s)
        self.prompt_size.observe(request.prompt_tokens)
        self.output_size.observe(end.output_tokens)
        self.asked_size.observe(request.output_tokens)
        if end.started_s is not None:
            self.queue.observe(end.started_s - end.arrived_s)
            self.inference.observe(end.finished_s - end.started_s)
        if end.started_s is not None and end.first_token_s is not None:
            self.prefill.observe(end.first_token_s - end.started_s)
            self.decode.observe(end.finished_s - end.first_token_s)
        if end.tpot_s is not None:
            self.tpot.observe(end.tpot_s)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One data-parallel rank at the time of a scrape."""

    rank: int
    config: EngineConfig
    statistics: EngineStatistics
    timings: Timings
    model_name: str
    role: str = "both"
    running_adapters: tuple[str, ...] = ()
    waiting_adapters: tuple[str, ...] = ()
    adapters_changed_unix_s: float = 0.0
    """When these two lists last changed."""
    asleep: bool = False
    transfers: Mapping[str, int] = {}
    """Counters of prefill/decode pairs."""


class Series(NamedTuple):
    """One value or histogram with its labels. Counters are named without `_total`."""

    kind: Literal["gauge", "counter", "histogram"]
    name: str
    documentation: str
    labels: dict[str, str]
    value: float | Histogram


def gauge(name: str, documentation: str, value: float, **labels: str) -> Series:
    return Series("gauge", name, documentation, labels, value)


def counter(name: str, documentation: str, value: float, **labels: str) -> Series:
    return Series("counter", name, documentation, labels, value)


def histogram(name: str, documentation: str, value: Histogram) -> Series:
    return Series("histogram", name, documentation, {}, value)
