"""Loads as gateways measure them, added up over the pools that reach the variants of a model."""

from __future__ import annotations

import msgspec

from headgate.api.signal_names import MEANS, METRICS
from headgate.controllers.planning.loads import Demand
from headgate.observe.signals import PoolLoad, Signals
from headgate.planning.load import METRICS_MISSING, PROMPT_SQUARES, UNBEGUN_TOKENS, Load, Missing, of_signals
from headgate.requests.stream_times import Times

_NO_POOL = "no ModelServer or InferencePool selects the Pods, so no gateway knows of requests for them"
_OF_OTHERS = "only Pods of others in the pool are ready"


class GatewayLoads:
    """The loads that gateways told last."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def now(self, demand: Demand) -> Load | Missing:
        if not demand.pools:
            return Missing(METRICS_MISSING, _NO_POOL)
        parts: list[tuple[PoolLoad, float]] = []
        for pool, share in demand.pools.items():
            load = self._signals.of(pool)
            if share is None:
                return Missing(METRICS_MISSING, f"{pool}: {_OF_OTHERS}")
            if not load.is_known:
                return Missing(METRICS_MISSING, f"{pool}: {'; '.join(load.missing)}")
            parts.append((load, share))
        unbegun_tokens = sum(load.unbegun_tokens * share for load, share in parts)
        metrics = {name: _sum(parts, name) for name in METRICS if name not in MEANS}
        squares = sum(load.prompt_squares * share for load, share in parts)
        found = of_signals(metrics | {UNBEGUN_TOKENS: unbegun_tokens, PROMPT_SQUARES: squares})
        return _timed(found, [load.times for load, _ in parts]) if _are_own(parts) else found

    def idle_s(self, demand: Demand) -> float | None:
        """How long there has been no request; None while there is one, or if it is not known."""
        idle = [self._signals.of(pool).idle_s for pool in demand.pools]
        known = [each for each in idle if each is not None]
        return min(known) if known and len(known) == len(idle) else None

    def has_had_requests(self, demand: Demand, seconds: float) -> bool:
        """Whether gateways know of a request within this time."""
        loads = [self._signals.of(pool) for pool in demand.pools]
        return any(
            each.waiting_for_endpoints or (each.is_known and (each.idle_s is None or each.idle_s < seconds))
            for each in loads
        )

    def awaiting(self, demand: Demand) -> int:
        """Requests that wait for a first endpoint."""
        return sum(self._signals.of(pool).waiting_for_endpoints for pool in demand.pools)


def _are_own(parts: list[tuple[PoolLoad, float]]) -> bool:
    """Whether all requests of the pools are at Pods of the variants."""
    return all(share == 1 for _, share in parts)


def _timed(load: Load, times: list[Times]) -> Load:
    """With what the tokens of streamed responses took."""
    requests, tokens = sum(each.requests for each in times), sum(each.tokens for each in times)
    return msgspec.structs.replace(
        load,
        ttft_ms=1000 * sum(each.ttft_s for each in times) / max(requests, 1),
        itl_ms=1000 * sum(each.tokens_s for each in times) / max(tokens, 1),
        timed_requests=requests,
        timed_tokens=tokens,
        queued_requests=sum(each.queued for each in times),
    )


def _sum(parts: list[tuple[PoolLoad, float]], name: str) -> float:
    return sum(load.metrics.get(name, 0.0) * share for load, share in parts)
