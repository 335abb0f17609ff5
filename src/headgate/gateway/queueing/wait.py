"""The time that one request spends in a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headgate.gateway.queueing.kinds import kind_of

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.requests.life import Life


class Home(Protocol):
    """The queue."""

    def progress(self, place: Waiting, now: float) -> str: ...


class QueueWait:
    """Made for a request that may not go at once; kept to its end, for the log."""

    __slots__ = (
        "begun_at",
        "dropped_reason",
        "has_head",
        "home",
        "kind",
        "over_at",
        "place",
        "told_at",
        "told_bytes",
        "wants_progress",
    )

    def __init__(
        self, life: Life, home: Home, place: Waiting, begun_at: float, *, wants_progress: bool
    ) -> None:
        self.home = home
        self.place = place
        """Its place in the queue."""
        self.kind = kind_of(life.decision, place)
        self.begun_at = begun_at
        self.over_at = 0.0
        """When it was sent, dropped, or given up; 0 while it waits."""
        self.dropped_reason = ""
        self.wants_progress = wants_progress
        self.has_head = False
        self.told_at = 0.0
        self.told_bytes = 0

    @property
    def is_over(self) -> bool:
        return self.over_at > 0.0

    def seconds(self, now: float) -> float:
        return (self.over_at or now) - self.begun_at

    def progress(self, now: float) -> str:
        return self.home.progress(self.place, now)
