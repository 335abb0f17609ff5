"""The time that one request spends in the queue of its pool."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.requests.queueing.kinds import Kind


class Home(Protocol):
    """The queue."""

    def progress(self, place: Waiting, now: float) -> str:
        """The request's progress, in words."""
        ...


class Wait:
    """Made for a request that cannot be sent immediately; kept until its end, for the log."""

    __slots__ = (
        "begun_at",
        "dropped_reason",
        "endpoint_at",
        "has_head",
        "holds",
        "home",
        "is_for_endpoint",
        "kind",
        "over_at",
        "patience_ends_at",
        "place",
        "told_at",
        "told_bytes",
        "wants_progress",
    )

    def __init__(
        self, home: Home, place: Waiting, kind: Kind, begun_at: float, *, wants_progress: bool
    ) -> None:
        self.home = home
        self.place = place
        """Its place in the queue."""
        self.kind = kind
        """Its kind in metrics."""
        self.begun_at = begun_at
        """When it was queued."""
        self.patience_ends_at = math.inf
        """When its client gives up, as it said."""
        self.over_at: float | None = None
        """When it was sent, dropped, or abandoned; None while it is queued."""
        self.is_for_endpoint = False
        """Whether the pool had no endpoint when it was queued."""
        self.endpoint_at: float | None = None
        """If so: when the pool got one, or this wait ended without; None while it is queued."""
        self.holds = 1
        """How often it was queued: again if its pool, which requests start, lost its last endpoint."""
        self.dropped_reason = ""
        """Why it was dropped or evicted; empty if it was neither."""
        self.wants_progress = wants_progress
        """Whether its client asked for progress reports."""
        self.has_head = False
        """Whether its client has received a response head already."""
        self.told_at = 0.0
        """When its client last received progress; 0 means never."""
        self.told_bytes = 0
        """Bytes of progress in the body of the stream, including framing."""

    def follow(self, before: Wait) -> None:
        """Continue an earlier wait of the request: its client sees one."""
        self.begun_at = before.begun_at
        self.holds = before.holds + 1
        self.is_for_endpoint = self.is_for_endpoint or before.is_for_endpoint
        self.has_head, self.told_at, self.told_bytes = before.has_head, before.told_at, before.told_bytes
        before.place.owner = None

    def is_in(self, queue: object) -> bool:
        """Whether it waits, or waited, in this queue: a request may leave a pool for another one."""
        return self.home is queue

    @property
    def is_over(self) -> bool:
        return self.over_at is not None

    def seconds(self, now: float) -> float:
        """How long it waited, or has waited so far."""
        return (now if self.over_at is None else self.over_at) - self.begun_at

    def start_seconds(self, now: float) -> float:
        """How long it waited, or has waited so far, for the start of the pool's first endpoint."""
        if not self.is_for_endpoint:
            return 0.0
        return max((now if self.endpoint_at is None else self.endpoint_at) - self.begun_at, 0.0)

    def progress(self, now: float) -> str:
        return self.home.progress(self.place, now)
