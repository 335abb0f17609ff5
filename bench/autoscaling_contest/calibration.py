"""What one replica can do for a kind of request: what people measure before they set targets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from headgate.simulator.autoscaling import Setting, Work, replay, score

SHARE = 0.99
"""Of requests within their SLO, at capacity."""
REPLICAS = 4
"""Measured on this many replicas at once: a lone one has less capacity, since its queue is shared by none."""
REQUESTS = 2000
STEPS = 10


class Calibration(NamedTuple):
    """Values of one replica at the highest rate that it sustains."""

    requests_per_s: float
    prompt_tokens_per_s: float
    output_tokens_per_s: float
    concurrency: float
    """Requests in the engine: running and waiting."""
    kv_usage: float
    prompt_tokens: float
    """Mean per request."""
    output_tokens: float


class _Fixed:
    """Keeps the number of replicas, and records the mean load of each."""

    period_s = 1.0

    def __init__(self) -> None:
        self.concurrency: list[float] = []
        self.kv_usage: list[float] = []

    def desired(self, fleet) -> int:  # type: ignore[no-untyped-def]
        self.concurrency += [each.requests for each in fleet.ready]
        self.kv_usage += [each.kv_usage for each in fleet.ready]
        return len(fleet.ready)


def calibrate(works: Sequence[Work], setting: Setting, seed: int = 1) -> Calibration:
    """Bisection over the rate of Poisson arrivals of random requests of a trace."""
    rng = random.Random(seed)
    chosen = [rng.choice(works) for _ in range(REQUESTS)]
    gaps = [rng.expovariate(1.0) for _ in chosen]
    seconds = sum(each.uncached_tokens for each in chosen) * setting.engine.costs.per_prefill_token_s
    low, high = 0.0, 2.0 * REQUESTS / seconds
    fixed = setting._replace(begins_with=REPLICAS)
    best = _Fixed()
    for _ in range(STEPS):
        rate = (low + high) / 2
        at_s, sent = 0.0, []
        for number, (work, gap) in enumerate(zip(chosen, gaps, strict=True)):
            at_s += gap / (rate * REPLICAS)
            sent.append(work._replace(number=number, at_s=at_s))
        watch = _Fixed()
        if score(replay(sent, watch, fixed)).attainment >= SHARE:
            low, best = rate, watch
        else:
            high = rate
    prompt = sum(each.prompt_tokens for each in chosen) / REQUESTS
    output = sum(each.output_tokens for each in chosen) / REQUESTS
    return Calibration(
        requests_per_s=low,
        prompt_tokens_per_s=low * prompt,
        output_tokens_per_s=low * output,
        concurrency=max(_mean(best.concurrency), 1.0),
        kv_usage=_mean(best.kv_usage),
        prompt_tokens=prompt,
        output_tokens=output,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
