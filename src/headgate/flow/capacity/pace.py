"""Capacity by the clock: a number of requests per second, whatever their outcome."""

from __future__ import annotations

import math

from headgate.flow.capacity.capacity import Capacity


class Pace(Capacity):
    """Kthena's fairness in its QPS mode: one request every 1/rate seconds; unused time is not saved up."""

    is_paced = True

    def __init__(self, per_s: float) -> None:
        super().__init__()
        self._interval_s = 1.0 / per_s
        self._began_at = -math.inf
        """Start of the interval that must pass before the next request."""

    @property
    def _next_at(self) -> float:
        return self._began_at + self._interval_s / self.share

    def saturation(self, now: float) -> float:
        """0 once the interval has passed, 1 before."""
        return 0.0 if self.loads and now >= self._next_at else 1.0

    def room_at(self, priority: int, now: float) -> float:
        return self._next_at if self.loads and self._next_at > now else math.inf

    def sent(self, now: float) -> None:
        # After a late timer, the next interval starts on schedule; otherwise the rate would never be reached.
        next_at = self._next_at
        on_time = now - next_at < self._interval_s / self.share
        self._began_at = next_at if on_time else now
