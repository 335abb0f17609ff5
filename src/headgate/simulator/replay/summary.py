"""The numbers by which policies are compared: one summary for each run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from headgate.simulator.replay.outcome import Outcome, Slo
from headgate.simulator.traces import TimedRequest


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a time is spread over requests, in seconds; None where no request has it."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that kept the objective."""

    share: float
    """Of all requests, those that were refused or failed included."""
    requests_per_s: float
    """By simulated second."""


class EndpointWork(msgspec.Struct, frozen=True, kw_only=True):
    """What one endpoint did."""

    name: str
    busy_s: float
    """In which its engine made steps."""
    requests: int
    cached_tokens: int
    prompt_tokens: int
    preemptions: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Fields of zero requests are None where a number would say something that is not so."""

    requests: int
    served: int
    failed: int
    refused: int
    preemptions: int
    rate_per_s: float
    """Of arrivals."""
    simulated_s: float
    """Until the last request ended."""
    ttft_s: Spread
    tpot_s: Spread
    goodput: Goodput
    ttft_attainment: float
    """The share of all requests whose first token came in time, whatever the tokens after it."""
    hit_rate: float | None
    """Cached tokens of all prompt tokens served."""
    balance: float | None
    """The busiest endpoint's work over the mean; 1 is even."""
    endpoints: list[EndpointWork]


def summarize(
    outcomes: Sequence[Outcome], names: Sequence[str], busy_s: Sequence[float], slo: Slo
) -> Summary:
    """`names` and `busy_s` are of the fleet's endpoints, which outcomes name by index."""
    served = [outcome for outcome in outcomes if outcome.status == "served"]
    ended_s = max((outcome.ended_s for outcome in outcomes), default=0.0)
    good = sum(slo.met(outcome) for outcome in outcomes)
    in_time = sum(outcome.ttft_s is not None and outcome.ttft_s <= slo.ttft_s for outcome in served)
    prompt_tokens = sum(outcome.request.prompt_tokens for outcome in served)
    cached_tokens = sum(outcome.cached_tokens for outcome in served)
    return Summary(
        requests=len(outcomes),
        served=len(served),
        failed=sum(outcome.status == "failed" for outcome in outcomes),
        refused=sum(outcome.status == "refused" for outcome in outcomes),
        preemptions=sum(outcome.preemptions for outcome in outcomes),
        rate_per_s=_rate([outcome.request.at_s for outcome in outcomes]),
        simulated_s=ended_s,
        ttft_s=spread(outcome.ttft_s for outcome in served),
        tpot_s=spread(outcome.tpot_s for outcome in served),
        goodput=Goodput(
            share=good / len(outcomes) if outcomes else 0.0,
            requests_per_s=good / ended_s if ended_s else 0.0,
        ),
        ttft_attainment=in_time / len(outcomes) if outcomes else 0.0,
        hit_rate=cached_tokens / prompt_tokens if prompt_tokens else None,
        balance=max(busy_s) * len(busy_s) / total if busy_s and (total := sum(busy_s)) else None,
        endpoints=_endpoints(outcomes, names, busy_s),
    )


def spread(seconds: Iterable[float | None]) -> Spread:
    known = sorted(value for value in seconds if value is not None)
    if not known:
        return Spread(mean=None, p50=None, p90=None, p99=None, max=None)
    return Spread(
        mean=math.fsum(known) / len(known),
        p50=percentile(known, 0.5),
        p90=percentile(known, 0.9),
        p99=percentile(known, 0.99),
        max=known[-1],
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the values that so large a share does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ideal_hit_rate(requests: Iterable[TimedRequest]) -> float | None:
    """The share of prompt tokens that one cache without bounds would find: no fleet can do better.

    None if no request tells its prefix. As in engines, full blocks are found, and the last token is computed.
    """
    seen: set[int] = set()
    cached = tokens = 0
    for request in requests:
        tokens += request.prompt_tokens
        if not request.prefix:
            continue
        usable = request.prefix[: (request.prompt_tokens - 1) // request.block_tokens]
        known = next((index for index, block in enumerate(usable) if block not in seen), len(usable))
        cached += known * request.block_tokens
        seen.update(request.prefix[: request.prompt_tokens // request.block_tokens])
    return cached / tokens if seen else None


def _rate(times: Sequence[float]) -> float:
    span = max(times) - min(times) if times else 0.0
    return len(times) / span if span else 0.0


def _endpoints(
    outcomes: Sequence[Outcome], names: Sequence[str], busy_s: Sequence[float]
) -> list[EndpointWork]:
    had: list[list[Outcome]] = [[] for _ in names]
    for outcome in outcomes:
        if outcome.endpoint is not None:
            had[outcome.endpoint].append(outcome)
    return [
        EndpointWork(
            name=name,
            busy_s=busy,
            requests=len(mine),
            cached_tokens=sum(outcome.cached_tokens for outcome in mine),
            prompt_tokens=sum(outcome.request.prompt_tokens for outcome in mine),
            preemptions=sum(outcome.preemptions for outcome in mine),
        )
        for name, busy, mine in zip(names, busy_s, had, strict=True)
    ]
