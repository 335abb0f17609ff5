"""Updates the health of endpoints: failures, Retry-After, silence."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from headgate import fleet
from headgate.fleet.ejection import HANG

if TYPE_CHECKING:
    from headgate.requests.observer import Engines, Observer
    from headgate.requests.pool_state import PoolState

BEHIND_S = 1.5


class Health:
    """For all endpoints of a data plane. Keeps its knowledge in the endpoint states and pools."""

    def __init__(self, observer: Observer, engines: Engines) -> None:
        self._observer = observer
        self._engines = engines
        self._swept_at = -math.inf
        self._is_behind = True
        """Whether the gateway was too busy to read what endpoints sent."""

    def begin_sweep(self, now: float) -> None:
        """Begin to check requests for silence, which happens about once a second."""
        self._is_behind = now - self._swept_at > BEHIND_S
        self._swept_at = now

    def attempt_failed(self, pool: PoolState, load: fleet.EndpointState, reason: str, now: float) -> None:
        """Count an attempt that failed through the endpoint's fault: no response, or one such as 503."""
        self._observer.attempt_failed(pool, reason)
        self.failed(pool, load, reason, now)

    def failed(self, pool: PoolState, load: fleet.EndpointState, reason: str, now: float) -> None:
        """Count a failure of an endpoint, which may eject it."""
        if pool.evidence.failed(load, reason, now, pool.budget.requests + pool.budget.granted):
            self._ejected(pool, load, reason, now)
        if pool.queue is not None:
            pool.queue.refresh_endpoints(now)

    def disappointed(self, pool: PoolState, load: fleet.EndpointState, reason: str, now: float) -> None:
        """Count a response without content, which may eject its endpoint if others respond better."""
        attempts = pool.budget.requests + pool.budget.granted
        if pool.evidence.disappointed(load, reason, now, attempts):
            self._ejected(pool, load, reason, now)

    def rests(self, pool: PoolState, load: fleet.EndpointState, seconds: float, now: float) -> float:
        """Record that an endpoint asked for no requests for `seconds`; return the time until which it gets
        none."""
        if load.resting_until <= now:
            self._observer.rests(pool, load, seconds)
        return load.rests(now, seconds)

    def hangs(self, pool: PoolState, load: fleet.EndpointState, now: float) -> None:
        """Eject an endpoint that responds to nothing."""
        if load.ejection.until <= now and load.hangs(now):
            self._ejected(pool, load, HANG, now)
            if pool.queue is not None:
                pool.queue.refresh_endpoints(now)

    def is_stopped(self, pool: PoolState, load: fleet.EndpointState, long_s: float, now: float) -> bool:
        """Whether an endpoint sent nothing for `long_s`, not even a response to the gateway's own query,
        while other endpoints of its pool did. Queries the endpoint if that was not done."""
        watch = self._engines.watch(load)
        if watch is None or self._is_behind or now - load.heard_at <= long_s:
            return False
        if not watch.is_unanswered(now):
            watch.list_models_soon()
            return False
        return any(
            now - self._heard_at(other) <= long_s
            for other in pool.loads
            if other is not load and other.ejection.until <= now
        )

    def is_silent(self, pool: PoolState, load: fleet.EndpointState, since: float) -> bool:
        """Whether an endpoint sent no part of any response since `since`, although another one of its pool
        did."""
        if self._is_behind or load.heard_at >= since:
            return False
        return any(other.heard_at > since for other in pool.loads)

    def _heard_at(self, load: fleet.EndpointState) -> float:
        """When the endpoint last sent a part of a response to this process."""
        watch = self._engines.watch(load)
        return load.heard_at if watch is None else max(load.heard_at, watch.heard_at)

    def _ejected(self, pool: PoolState, load: fleet.EndpointState, reason: str, now: float) -> None:
        self._observer.ejected(pool, load, reason, is_out=load in fleet.ejected(pool.loads, now))


def why(load: fleet.EndpointState) -> str:
    """Why an endpoint was last ejected, in words that follow "after"."""
    if load.reasons and load.reasons[-1] == HANG:
        return "responding to none of its requests, while other endpoints responded"
    reasons = list(load.reasons)
    failure_rate = load.ejection.failure_rate
    if not failure_rate:
        reasons = reasons[-load.failures_in_row :]
    counts = Counter(reasons)
    told = ", ".join(f"{reason} ({count})" for reason, count in counts.most_common())
    if failure_rate:
        return f"failing {failure_rate:.0%} of its requests, far more than the others, the last: {told}"
    return f"{load.failures_in_row} failures in a row, the last: {told}"


def state(load: fleet.EndpointState, is_ejected: bool, now: float) -> str:
    """The state of an endpoint in one word; docs/gateway.md explains them."""
    if is_ejected:
        return "ejected"
    if load.resting_until > now:
        return "resting"
    if load.ejection.until > now:
        return "needed"  # it would be ejected, but its pool has reached the ejection limit
    if load.share(now) < 1:
        return "returning"
    return "avoided" if load.avoided(now) else "healthy"
