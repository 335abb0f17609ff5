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

    __slots__ = ("_awaited", "_pending", "_ties", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._pending: list[tuple[float, int, int, bool, Callable[[], None]]] = []
        self._awaited = 0
        self._ties = count()

    def at(
        self, time_s: float, action: Callable[[], None], order: int = EVENT, *, is_awaited: bool = True
    ) -> None:
        """Plan an action; ValueError if its time is over, or is none. Time does not go on for the sake of
        actions alone that are not awaited."""
        if not time_s >= self.now:
            raise ValueError(f"an event at {time_s} s lies before the virtual time {self.now} s")
        heapq.heappush(self._pending, (time_s, order, next(self._ties), is_awaited, action))
        self._awaited += is_awaited

    def run(self) -> None:
        """Until nothing is left that is awaited."""
        pending = self._pending
        while self._awaited:
            self.now, _, _, is_awaited, action = heapq.heappop(pending)
            self._awaited -= is_awaited
            action()
