"""What `/debug/flow` shows: of each pool its queue, with all that explains who waits."""

from __future__ import annotations

import msgspec

from headgate.flow.queue import QueueView


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
