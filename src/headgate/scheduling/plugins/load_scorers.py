"""Scorers by load: queue, batch, cache, tokens and requests in flight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from headgate.scheduling.plugins import signals
from headgate.scheduling.plugins.parameters import Producer, Share, unused
from headgate.scheduling.plugins.plugin import Cycle, Loads, Scorer


def least_first(values: Sequence[float]) -> list[float]:
    """1 for the least, 0 for the most, linear in between; 1 for all if they are equal."""
    least, most = min(values), max(values)
    if least == most:
        return [1.0] * len(values)
    spread = most - least
    return [(most - value) / spread for value in values]


class QueueScorer(Scorer):
    """The shortest queue is best: (max - waiting) / (max - min); 1 if all are equal."""

    kind = "queue-scorer"

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        return least_first(signals.waiting(loads))


class RunningRequestsScorer(Scorer):
    """The smallest batch is best: (max - running) / (max - min); 1 if all are equal."""

    kind = "running-requests-size-scorer"

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        return least_first(signals.running(loads))


class KvCacheUtilizationScorer(Scorer):
    """The free share of the KV cache: 1 - usage."""

    kind = "kv-cache-utilization-scorer"

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        return [1.0 - usage for usage in signals.kv_usage(loads)]


class LoadAwareParameters(msgspec.Struct, frozen=True, kw_only=True):
    threshold: Annotated[int, msgspec.Meta(ge=1)] = 128


class LoadAwareScorer(Scorer):
    """From 0.5 for an empty queue down to 0 for one of `threshold` requests."""

    kind = "load-aware-scorer"
    Parameters = LoadAwareParameters

    def __init__(self, parameters: LoadAwareParameters | None = None) -> None:
        super().__init__()
        self._threshold = (parameters or LoadAwareParameters()).threshold

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        threshold = self._threshold
        return [0.5 * (1.0 - min(count, threshold) / threshold) for count in signals.waiting(loads)]


class TokenLoadParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    queue_threshold_tokens: Annotated[float, msgspec.Meta(gt=0)] = 4_194_304
    non_text_token_weight: Annotated[float, unused("prompts are counted as text")] = 1.0
    in_flight_load_producer_name: Producer = ""
    prefix_match_info_producer_name: Producer = ""


class TokenLoadScorer(Scorer):
    """1 - min(t, C) / C, where t are the prompt tokens that the endpoint has to prefill: the uncached ones in
    flight, and the uncached ones of this request."""

    kind = "token-load-scorer"
    Parameters = TokenLoadParameters
    uses_prefix = True

    def __init__(self, parameters: TokenLoadParameters | None = None) -> None:
        super().__init__()
        self._capacity = (parameters or TokenLoadParameters()).queue_threshold_tokens

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        most, prompt_tokens = self._capacity, cycle.request.prompt_tokens
        return [
            1.0 - min(load.prefill_tokens + max(prompt_tokens - held, 0.0), most) / most
            for load, held in zip(loads, cycle.held_tokens(loads), strict=True)
        ]


class ActiveRequestParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    idle_threshold: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_busy_score: Share = 1.0
    request_timeout: Annotated[str, unused("each request is counted until it ends")] = ""
    in_flight_load_producer_name: Producer = ""


class ActiveRequestScorer(Scorer):
    """1 for an endpoint with at most `idleThreshold` requests in flight from this gateway; else (max -
    requests) / max x `maxBusyScore`."""

    kind = "active-request-scorer"
    Parameters = ActiveRequestParameters

    def __init__(self, parameters: ActiveRequestParameters | None = None) -> None:
        super().__init__()
        parameters = parameters or ActiveRequestParameters()
        self._idle = parameters.idle_threshold
        self._busiest = parameters.max_busy_score

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        most, idle, busiest = max(load.requests for load in loads), self._idle, self._busiest
        return [1.0 if load.requests <= idle else (most - load.requests) / most * busiest for load in loads]
