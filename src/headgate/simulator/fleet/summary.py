"""Summary statistics by which runs are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from headgate.simulator.fleet.records import EngineRecord, RequestRecord


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """Latency objectives of a good response."""

    ttft_s: float = 2.0
    tpot_s: float = math.inf

    def is_met(self, record: RequestRecord) -> bool:
        """Whether a request was served in time. A single token has no TPOT to miss."""
        if record.outcome != "served" or record.ttft_s is None:
            return False
        return record.ttft_s <= self.ttft_s and (record.tpot_s is None or record.tpot_s <= self.tpot_s)


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of seconds, nan if there are no values. By nearest rank: each is an observed value."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Rates are per second from the first arrival to the last."""

    requests: int
    served: int
    refused: int
    failed: int
    retried: int
    """Requests with more than one attempt."""
    ttft_s: Percentiles
    tpot_s: Percentiles
    latency_s: Percentiles
    slo_share: float
    """Share of all requests that met the SLO."""
    goodput_per_s: float
    """Requests that met the SLO."""
    arrivals_per_s: float
    output_tokens_per_s: float
    """From the first arrival to the last end."""
    hit_rate: float
    """Share of prompt tokens found in caches, among served requests."""
    imbalance: float
    """Busy time of the busiest engine over the mean; 1 is even."""
    request_imbalance: float
    """The same for the number of requests sent."""
    preemptions: int
    joules_per_output_token: float
    """Energy of all engines over all received tokens; 0 without tokens."""
    dollars_per_million_output_tokens: float


def summarize(records: Sequence[RequestRecord], engines: Sequence[EngineRecord], slo: Slo) -> Summary:
    served = [record for record in records if record.outcome == "served"]
    good = sum(slo.is_met(record) for record in served)
    first_s = min((record.arrived_s for record in records), default=0.0)
    arrivals_s = max((record.arrived_s for record in records), default=0.0) - first_s
    tokens = sum(record.output_tokens for record in records)
    lasted_s = max((record.ended_s for record in records), default=0.0) - first_s
    return Summary(
        requests=len(records),
        served=len(served),
        refused=sum(record.outcome == "refused" for record in records),
        failed=sum(record.outcome == "failed" for record in records),
        retried=sum(record.attempts > 1 for record in records),
        ttft_s=percentiles([record.ttft_s for record in served]),
        tpot_s=percentiles([record.tpot_s for record in served]),
        latency_s=percentiles([record.latency_s for record in served]),
        slo_share=_ratio(good, len(records)),
        goodput_per_s=_ratio(good, arrivals_s),
        arrivals_per_s=_ratio(len(records), arrivals_s),
        output_tokens_per_s=_ratio(tokens, lasted_s),
        hit_rate=_ratio(
            sum(record.cached_tokens for record in served), sum(record.prompt_tokens for record in served)
        ),
        imbalance=_imbalance([engine.busy_s for engine in engines]),
        request_imbalance=_imbalance([float(engine.requests) for engine in engines]),
        preemptions=sum(record.preemptions for record in records),
        joules_per_output_token=_ratio(math.fsum(engine.energy_j for engine in engines), tokens),
        dollars_per_million_output_tokens=_ratio(
            1e6 * math.fsum(engine.dollars for engine in engines), tokens
        ),
    )


def percentiles(values: Sequence[float | None]) -> Percentiles:
    """Percentiles of the values that are not None."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return Percentiles(
            mean=math.nan, p50=math.nan, p90=math.nan, p95=math.nan, p99=math.nan, max=math.nan
        )

    def at(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return Percentiles(
        mean=math.fsum(ordered) / len(ordered),
        p50=at(0.5),
        p90=at(0.9),
        p95=at(0.95),
        p99=at(0.99),
        max=ordered[-1],
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _imbalance(loads: Sequence[float]) -> float:
    total = math.fsum(loads)
    return max(loads) * len(loads) / total if total else 1.0


class FleetRun(msgspec.Struct, frozen=True, kw_only=True):
    """A complete run; `records` are in the order of the requests."""

    records: tuple[RequestRecord, ...]
    engines: tuple[EngineRecord, ...]
    ended_s: float
    retries_denied: int = 0
    """Requests not retried because the retry budget was exhausted."""

    def summary(self, slo: Slo | None = None) -> Summary:
        """The summary statistics of this run."""
        return summarize(self.records, self.engines, slo or Slo())
