"""The page `/debug/flow`: the queue of each pool, with the reasons why requests wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headgate.flow.queue import QueueView

if TYPE_CHECKING:
    from headgate.requests.queueing.pool_queue import PoolQueue

MAX_SATURATED = 1000.0
"""Maximum shown: JSON has no infinity."""


class QueueShown(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of one pool, in one worker. Each worker has its own, with its own share of the requests."""

    worker: int = 0
    is_on: bool
    """Whether requests can be queued at all."""
    endpoints: int
    """Endpoints that can respond."""
    in_flight: int
    """Requests of this worker in flight on them."""
    why: str
    """Why a request with priority 0 that arrives now would wait; empty if it would not."""
    queue: QueueView


def shown(queue: PoolQueue, now: float) -> QueueShown:
    """The state of one queue."""
    view = queue.explain(now)
    return QueueShown(
        is_on=queue.settings.is_on,
        endpoints=len(queue.room.answering()),
        in_flight=queue.room.capacity.in_flight(),
        why=queue.why_wait(0, now),
        queue=msgspec.structs.replace(view, saturation=min(view.saturation, MAX_SATURATED)),
    )
