"""Why a pool has no endpoint for a request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headgate import scheduling
from headgate.requests.refusal import START_FAILED, STARTING, Refusal

if TYPE_CHECKING:
    from headgate import routing
    from headgate.api import ObjectRef
    from headgate.requests.pool_state import PoolState


def no_endpoint(pool: PoolState, max_requests: int, refused: scheduling.Refused | None = None) -> Refusal:
    """Why a pool has no endpoint for a request. `max_requests`: the limit per endpoint.

    `refused` is the reason of its policy, if there were endpoints to pick from.
    """
    key = pool.pool.key
    if refused is not None:
        why = f"the scheduling policy of {key} picks no endpoint: {refused.why}"
        if refused.is_busy:
            return Refusal.saturated(why, code="pool_saturated")
        return Refusal.unavailable(why, code="no_suited_endpoint", dropped="rejected-no-endpoints")
    if not (pool.loads if pool.pairs is None else pool.pairs.decode):
        fault, start = pool.pool.fault, pool.pool.start
        if start is not None and not fault:
            return _not_started(key, start)
        no_pod = f"none of its {'decoding ' if pool.loads else ''}Pods is ready"
        why = "see its status" if fault else no_pod
        return Refusal.unavailable(
            f"{key} has no ready endpoint: {why}",
            code="no_ready_endpoint",
            dropped="rejected-no-endpoints",
            logged=f"{key} has no ready endpoint: {fault}" if fault else "",
        )
    return Refusal.unavailable(
        f"every endpoint of {key} was tried or has {max_requests} requests from this gateway",
        code="endpoints_full",
    )


def _not_started(key: ObjectRef, start: routing.Start) -> Refusal:
    """A pool that requests start has no endpoint."""
    why = f"it could not be started: {start.failure}" if start.failure else "it is being started"
    return Refusal.unavailable(
        f"{key} has no ready endpoint: {why}",
        code=START_FAILED if start.failure else STARTING,
        retry_after_s=max(math.ceil(start.expected_s), 1),
        dropped="rejected-no-endpoints",
    )
