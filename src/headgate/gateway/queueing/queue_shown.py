"""What `/debug/flow` shows: of each pool its queue, with all that explains who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headgate.flow.queue import QueueView

if TYPE_CHECKING:
    from headgate.requests.queueing.pool_queue import PoolQueue

MAX_SATURATED = 1000.0
"""As it is shown: JSON knows nothing infinite."""


class QueueShown(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of one pool, in one worker. Each worker has its own, with its own share of the requests."""

    worker: int = 0
    is_on: bool
    """Whether requests wait at all."""
    endpoints: int
    """That can answer."""
    in_flight: int
    """Requests of this worker that they have."""
    why: str
    """What keeps a request from going that comes now with priority 0; empty if nothing does."""
    queue: QueueView


def shown(queue: PoolQueue, now: float) -> QueueShown:
    """For whoever asks what a queue does."""
    view = queue.explain(now)
    return QueueShown(
        is_on=queue.settings.is_on,
        endpoints=len(queue.room.answering()),
        in_flight=queue.room.capacity.in_flight(),
        why=queue.why_wait(0, now),
        queue=msgspec.structs.replace(view, saturation=min(view.saturation, MAX_SATURATED)),
    )
