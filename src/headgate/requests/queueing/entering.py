"""Makes the place in the queue of a request that arrives, or that is queued again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headgate.flow.queue import Waiting
from headgate.requests import fallbacks

if TYPE_CHECKING:
    from headgate.flow.queue import FlowSettings
    from headgate.requests.owner import Owner
    from headgate.requests.queueing.hints import QueueHints


def waiting(
    owner: Owner,
    hints: QueueHints,
    flow: str,
    work: int,
    size: int,
    settings: FlowSettings,
    now: float,
    begun_at: float | None = None,
    *,
    is_without_endpoints: bool = False,
) -> Waiting:
    """The place of a request in `flow`, with `work` in tokens and `size` in bytes; `begun_at` is when it was
    first queued here, if it is queued again."""
    life = owner.life
    arrived_at = life.request.arrived_at
    gives_up_at = arrived_at + hints.patience_s
    if fallbacks.of(life) is not None:
        waits_s = fallbacks.waits_s(life, now, is_without_endpoints=is_without_endpoints)
        gives_up_at = min(gives_up_at, now + waits_s)
    if begun_at is not None:  # all of its waits together take no longer than one may
        gives_up_at = min(gives_up_at, begun_at + settings.start_ttl_s)
    return Waiting(
        owner,
        flow=flow,
        priority=life.decision.scheduled.priority,
        work=work,
        size=size,
        arrived=now,
        deadline=now + (settings.ttl_s or math.inf),
        gives_up_at=gives_up_at,
        slo_at=arrived_at + hints.objective_s,
    )
