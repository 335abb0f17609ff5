"""Counts the requests of one pool: those in flight, recent arrivals, and since when there are none."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

WINDOW_S: Final = 15.0
"""Arrivals and missed objectives are counted over about this time."""
MIN_WINDOW_S: Final = 1.0
"""A rate over less time, just after the start, would be mostly chance."""


class Recent(NamedTuple):
    """Counts of the last `WINDOW_S`, or since the pool is known if that is shorter."""

    arrivals_per_s: float
    objectives: int
    """Streamed requests with an objective for their first token that have ended."""
    misses: int
    """Those whose first token came later, or never."""


class PoolTraffic:
    """Lives as long as the pool, across snapshots. Each request costs two additions."""

    __slots__ = ("_past", "arrived", "idle_since", "in_flight", "misses", "objectives")

    def __init__(self, now: float) -> None:
        self.arrived = 0
        """Requests that were admitted by the limits of their route, whether they were served or not."""
        self.in_flight = 0
        """Those that have not ended, whether they wait or are at an endpoint."""
        self.idle_since = now
        """When the last request ended; when the pool became known if there was none."""
        self.objectives = 0
        self.misses = 0
        self._past: deque[tuple[float, int, int, int]] = deque([(now, 0, 0, 0)], maxlen=int(WINDOW_S) + 1)
        """The counts at the last sweeps, oldest first."""

    def entered(self) -> None:
        """Count a request, on its way to the queue or an endpoint."""
        self.arrived += 1
        self.in_flight += 1

    def ended(self, now: float) -> None:
        """Count the end of a request that entered."""
        self.in_flight -= 1
        self.idle_since = now

    def judged(self, *, is_missed: bool) -> None:
        """Count the end of a streamed request with an objective for its first token."""
        self.objectives += 1
        self.misses += is_missed

    def sweep(self, now: float) -> None:
        """Called about once a second."""
        self._past.append((now, self.arrived, self.objectives, self.misses))

    def idle_s(self, now: float) -> float | None:
        """How long there has been no request; None if there is one."""
        return None if self.in_flight else max(now - self.idle_since, 0.0)

    def recent(self, now: float) -> Recent:
        at, arrived, objectives, misses = self._past[0]
        return Recent(
            (self.arrived - arrived) / max(now - at, MIN_WINDOW_S),
            self.objectives - objectives,
            self.misses - misses,
        )
