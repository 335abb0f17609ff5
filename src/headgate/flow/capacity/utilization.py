"""utilization-detector: saturation by the engines' own figures."""

from __future__ import annotations

from headgate.fleet import EndpointState
from headgate.flow.capacity.capacity import Capacity
from headgate.flow.capacity.ceilings import Ceilings

FALLBACK_REQUESTS = 100


class Utilization(Capacity):
    """The mean over endpoints of max(waiting / queue depth, KV usage / its threshold), without an upper
    bound.

    An endpoint without a fresh reading counts as full, 1. If that is so for all of them, which would stop the
    pool, requests in flight are counted instead, 100 per endpoint.
    """

    def __init__(
        self,
        ceilings: Ceilings | None = None,
        *,
        queue_depth: int = 5,
        kv_usage: float = 0.8,
        stale_s: float = 0.2,
    ) -> None:
        super().__init__(ceilings)
        self._queue_depth = queue_depth
        self._kv_usage = kv_usage
        self._stale_s = stale_s

    def saturation(self, now: float) -> float:
        if not self.loads:
            return 1.0
        known = [fullness for load in self.loads if (fullness := self._fullness(load, now)) is not None]
        if not known:
            return self.in_flight() / (FALLBACK_REQUESTS * len(self.loads))
        return (sum(known) + len(self.loads) - len(known)) / len(self.loads)

    def is_stale(self, load: EndpointState, now: float) -> bool:
        return self._fullness(load, now) is None

    def _fullness(self, load: EndpointState, now: float) -> float | None:
        reading = load.reading
        if reading is None or reading.waiting is None or now - reading.at > self._stale_s:
            return None
        return max(reading.waiting / self._queue_depth, (reading.kv_usage or 0.0) / self._kv_usage)
