"""The time that one request spends in a queue, as whoever tells of it sees it."""

from __future__ import annotations

from typing import Protocol

from headgate.flow.queue import Waiting


class Wait(Protocol):
    """Kept to the end of the request."""

    place: Waiting
    """Its place in the queue."""
    begun_at: float
    """When it came to the queue."""
    dropped_reason: str
    """Why it was not served, or was taken back; empty if nothing of that happened."""
    wants_progress: bool
    """Whether its client asks to hear how far it is."""
    has_head: bool
    """Whether its client has the head of a stream already."""
    told_at: float
    """When its client last heard of it; 0 is never."""
    told_bytes: int
    """Of the stream's body, besides the answer's, framing included."""

    @property
    def home(self) -> object:
        """The queue."""
        ...

    @property
    def is_over(self) -> bool: ...
    def seconds(self, now: float) -> float:
        """How long it waited, or waits until now."""
        ...

    def progress(self, now: float) -> str:
        """How far it is, in words."""
        ...
