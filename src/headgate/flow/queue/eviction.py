"""Evicts running sheddable requests for more important ones, before the first byte of their response is sent.

The number follows llm-d: each request in flight counts as an equal part of the saturation, and enough are
evicted to bring it below the ceiling of the more important request. At most 2 at a time, then a pause of 500
ms, in which the engines settle. An eviction that has not ended the request within 10 s no longer counts as
under way.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable

from headgate.flow.queue.waiting import Waiting

MAX_AT_ONCE = 2
PAUSE_S = 0.5
CONFIRMED_WITHIN_S = 10.0


class Evictions:
    """Requests that could be evicted, and evictions under way."""

    def __init__(self) -> None:
        self._running: OrderedDict[Waiting, None] = OrderedDict()
        self._going: deque[tuple[Waiting, float]] = deque()
        self._paused_until = -math.inf

    def __len__(self) -> int:
        """Number of requests that could be evicted."""
        return len(self._running)

    def sent(self, waiting: Waiting) -> None:
        """Add a sheddable request that was sent to an endpoint."""
        self._running[waiting] = None

    def over(self, waiting: Waiting) -> None:
        """Remove a request: it has ended, or the first byte of its response was sent."""
        self._running.pop(waiting, None)
        self._going = deque(entry for entry in self._going if entry[0] is not waiting)

    def paused_until(self, now: float) -> float:
        return self._paused_until if self._running else math.inf

    def choose(
        self, priority: int, saturation: float, ceiling: float, in_flight: int, now: float
    ) -> Iterable[Waiting]:
        """The requests to evict for one of this priority: lowest first, newest first within a priority."""
        if now < self._paused_until or not self._running or not in_flight or saturation < ceiling:
            return ()
        while self._going and self._going[0][1] + CONFIRMED_WITHIN_S <= now:
            self._going.popleft()
        each = saturation / in_flight
        wanted = math.ceil((saturation - ceiling) / each) if each else 0
        wanted = min(max(wanted, 1), MAX_AT_ONCE) - len(self._going)
        lower = [waiting for waiting in self._running if waiting.priority < priority]
        lower.sort(key=lambda waiting: (waiting.priority, -waiting.order))
        chosen = lower[: max(wanted, 0)]
        for waiting in chosen:
            del self._running[waiting]
            self._going.append((waiting, now))
        if chosen:
            self._paused_until = now + PAUSE_S
        return chosen
