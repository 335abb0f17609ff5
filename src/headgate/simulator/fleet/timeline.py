"""Virtual time: scheduled actions, in order."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

EVENT, STEP_ENDS, STEP_BEGINS = range(3)
"""Order at equal times: a step ends after other events, and the next one begins after all of them."""


class Timeline:
    """A heap of actions. Actions with equal time and order run in the order they were scheduled."""

    __slots__ = ("_awaited", "_pending", "_ties", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._pending: list[tuple[float, int, int, bool, Callable[[], None]]] = []
        self._awaited = 0
        self._ties = count()

    def at(
        self, time_s: float, action: Callable[[], None], order: int = EVENT, *, is_awaited: bool = True
    ) -> None:
        """Schedule an action; raises ValueError if its time is in the past or nan. Time does not advance for
        actions that are not awaited alone.
        """
        if not time_s >= self.now:
            raise ValueError(f"an event at {time_s} s lies before the virtual time {self.now} s")
        heapq.heappush(self._pending, (time_s, order, next(self._ties), is_awaited, action))
        self._awaited += is_awaited

    def run(self) -> None:
        """Run until no awaited action is left."""
        pending = self._pending
        while self._awaited:
            self.now, _, _, is_awaited, action = heapq.heappop(pending)
            self._awaited -= is_awaited
            action()
