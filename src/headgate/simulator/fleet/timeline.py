"""Virtual time: what is to happen, in order."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

EVENT, STEP_ENDS, STEP_BEGINS = range(3)
"""What happens at one time happens in this order: a step ends after what comes at its very end, and the next
begins with all that came."""


class Timeline:
    """A heap of actions. Those of one time and order happen as they were planned."""

    __slots__ = ("_pending", "_ties", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._pending: list[tuple[float, int, int, Callable[[], None]]] = []
        self._ties = count()

    def at(self, time_s: float, action: Callable[[], None], order: int = EVENT) -> None:
        """Plan an action; ValueError if its time is over, or is none."""
        if not time_s >= self.now:
            raise ValueError(f"an event at {time_s} s lies before the virtual time {self.now} s")
        heapq.heappush(self._pending, (time_s, order, next(self._ties), action))

    def run(self) -> None:
        """Until nothing is left to happen."""
        pending = self._pending
        while pending:
            self.now, _, _, action = heapq.heappop(pending)
            action()
