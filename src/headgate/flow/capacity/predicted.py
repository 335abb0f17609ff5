"""Room by predicted work: engines have enough to do, and what waits for them waits here."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headgate.fleet import EndpointLoad

TARGET_S = 0.5


class PredictedWork:
    """There is room while some endpoint is predicted to take up a request within `target_s`."""

    def __init__(self, loads: Sequence[EndpointLoad] = (), *, target_s: float = TARGET_S) -> None:
        self._loads = loads
        self._target_s = target_s

    def follow(self, loads: Sequence[EndpointLoad]) -> None:
        self._loads = loads

    def follow_bands(self, priorities: Sequence[int]) -> None:
        pass

    def has_room(self, priority: int, now: float) -> bool:
        target_s = self._target_s
        return any(load.estimator.queue_s(now) < target_s for load in self._loads)

    def ceiling(self, priority: int) -> float:
        return 1.0

    def room_at(self, priority: int, now: float) -> float:
        later = [load.estimator.busy_until - self._target_s for load in self._loads]
        return min((at for at in later if at > now), default=math.inf)

    def sent(self, now: float) -> None:
        pass

    def saturation(self, now: float) -> float:
        queues = [load.estimator.queue_s(now) for load in self._loads]
        return min(queues, default=self._target_s) / self._target_s

    def in_flight(self) -> int:
        return sum(load.requests for load in self._loads)

    def is_empty(self) -> bool:
        return not self._loads
