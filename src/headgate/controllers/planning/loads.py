"""What a model has to do, as a collector tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec

from headgate import api

METRICS_MISSING = "MetricsMissing"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Requests for one model, and their mean lengths."""

    arrivals_per_s: float
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0
    cached_share: float = 0.0
    """Share of the prompt tokens that were found in a cache."""
    waiting: int = 0
    """Requests that wait in gateways or engines."""
    ttft_ms: float = 0.0
    """Observed means; 0 is unknown."""
    itl_ms: float = 0.0


class Missing(NamedTuple):
    """Why a load is not known."""

    reason: str
    message: str


class Demand(NamedTuple):
    """Requests for one model in one namespace and class: all its variants share them."""

    namespace: str
    model: str
    service_class: str
    pools: Mapping[api.ObjectRef, float | None] = {}
    """The pools that reach the variants, each with the share of its ready Pods that are theirs; None if it
    is not known."""

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.model}/{self.service_class}"


class Collector(Protocol):
    """Tells the load of a demand."""

    async def collect(self, demand: Demand) -> Load | Missing: ...
