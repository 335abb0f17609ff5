"""The time that one request spends in the queue of its pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.requests.queueing.kinds import Kind


class Home(Protocol):
    """The queue."""

    def progress(self, place: Waiting, now: float) -> str:
        """How far a request is, in words."""
        ...


class Wait:
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
        self, home: Home, place: Waiting, kind: Kind, begun_at: float, *, wants_progress: bool
    ) -> None:
        self.home = home
        self.place = place
        """Its place in the queue."""
        self.kind = kind
        """As metrics tell requests apart."""
        self.begun_at = begun_at
        """When it came to the queue."""
        self.over_at: float | None = None
        """When it was sent, dropped, or given up; None while it waits."""
        self.dropped_reason = ""
        """Why it was not served, or was taken back; empty if nothing of that happened."""
        self.wants_progress = wants_progress
        """Whether its client asks to hear how far it is."""
        self.has_head = False
        """Whether its client has the head of a stream already."""
        self.told_at = 0.0
        """When its client last heard of it; 0 is never."""
        self.told_bytes = 0
        """Of the stream's body, besides the answer's, framing included."""

    @property
    def is_over(self) -> bool:
        return self.over_at is not None

    def seconds(self, now: float) -> float:
        """How long it waited, or waits until now."""
        return (now if self.over_at is None else self.over_at) - self.begun_at

    def progress(self, now: float) -> str:
        """How far it is, in words."""
        return self.home.progress(self.place, now)
