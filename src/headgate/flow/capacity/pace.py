"""Room by the clock: so many requests per second, whatever becomes of them."""

from __future__ import annotations

import math

from headgate.flow.capacity.capacity import Capacity


class Pace(Capacity):
    """Kthena's fairness in its QPS mode: one request every 1/rate seconds; nothing is saved up."""

    is_paced = True

    def __init__(self, per_s: float) -> None:
        super().__init__()
        self._interval_s = 1.0 / per_s
        self._began_at = -math.inf
        """When the interval began that must pass before the next."""

    @property
    def _next_at(self) -> float:
        return self._began_at + self._interval_s / self.share

    def saturation(self, now: float) -> float:
        """As much of the interval as is still to come, and 1 at least while any is."""
        return 0.0 if self.loads and now >= self._next_at else 1.0

    def room_at(self, priority: int, now: float) -> float:
        return self._next_at if self.loads and self._next_at > now else math.inf

    def sent(self, now: float) -> None:
        # Where the timer was late, the next one is not: else the rate would never be reached.
        next_at = self._next_at
        on_time = now - next_at < self._interval_s / self.share
        self._began_at = next_at if on_time else now
