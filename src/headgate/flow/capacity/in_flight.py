"""Limits on requests in flight, like those of Kthena's queues."""

from __future__ import annotations

from headgate.fleet import EndpointState
from headgate.flow.capacity.capacity import Capacity
from headgate.flow.capacity.ceilings import Ceilings


class InFlight(Capacity):
    """Kthena's fairness with FAIRNESS_MAX_CONCURRENT: a limit over all endpoints."""

    def __init__(self, ceilings: Ceilings | None = None, *, most: int) -> None:
        super().__init__(ceilings)
        self._most = most

    def saturation(self, now: float) -> float:
        return self.fullness(now) / self.share if self.loads else 1.0

    def fullness(self, now: float) -> float:
        return self.in_flight() / self._most


class SessionRoom(Capacity):
    """Kthena's session boost: a limit per endpoint on average, and at least one endpoint with an empty queue.

    An endpoint that does not report its queue counts as one with an empty queue.
    """

    def __init__(self, ceilings: Ceilings | None = None, *, per_endpoint: int = 16) -> None:
        super().__init__(ceilings)
        self._per_endpoint = per_endpoint

    def saturation(self, now: float) -> float:
        if not self.loads:
            return 1.0
        saturation = self.fullness(now) / self.share
        if all(load.reading is not None and load.reading.waiting for load in self.loads):
            return max(saturation, 1.0)
        return saturation

    def fullness(self, now: float) -> float:
        return self.in_flight() / (self._per_endpoint * len(self.loads)) if self.loads else 0.0

    def is_stale(self, load: EndpointState, now: float) -> bool:
        return load.reading is None or load.reading.waiting is None
