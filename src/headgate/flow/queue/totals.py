"""The number of requests in a queue, and what became of the others."""

from __future__ import annotations


class Totals:
    """Counts of one queue, over all of its bands."""

    __slots__ = ("bytes", "dropped", "entered", "left", "requests", "sent")

    def __init__(self) -> None:
        self.requests = 0
        """Queued now."""
        self.bytes = 0
        """Of the queued requests."""
        self.entered = 0
        self.sent = 0
        self.left = 0
        self.dropped = 0
        """Includes those rejected at once, which have not entered."""

    def enter(self, size: int) -> int:
        """Count a request that is queued. Returns its place in the order of arrival, from 1."""
        self.entered += 1
        self.requests += 1
        self.bytes += size
        return self.entered

    def remove(self, size: int) -> None:
        """Count a request that is no longer queued."""
        self.requests -= 1
        self.bytes -= size

    def statistics(self) -> dict[str, float]:
        return {
            "requests": self.requests,
            "bytes": self.bytes,
            "entered": self.entered,
            "sent": self.sent,
            "left": self.left,
            "dropped": self.dropped,
        }

    def validate(self) -> None:
        """Check the invariants; for tests."""
        gone = self.entered - self.requests
        assert gone <= self.sent + self.left + self.dropped
