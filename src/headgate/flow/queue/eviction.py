"""Running sheddable requests that end for more important ones, as long as nothing of their answer has gone.

How many, as llm-d has it: each request in flight is taken for an equal part of the saturation, and as many of
them are ended as bring it below what the more important request needs; at most 2 at a time, then nothing for
500 ms, in which the engines get used to it. One that does not end within 10 s counts no more as going.
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
    """Which requests could be ended, and which are being ended."""

    def __init__(self) -> None:
        self._running: OrderedDict[Waiting, None] = OrderedDict()
        self._going: deque[tuple[Waiting, float]] = deque()
        self._paused_until = -math.inf

    def __len__(self) -> int:
        """How many could be ended."""
        return len(self._running)

    def sent(self, waiting: Waiting) -> None:
        """A sheddable request goes to an endpoint."""
        self._running[waiting] = None

    def over(self, waiting: Waiting) -> None:
        """The first byte of its answer has gone, or it has ended."""
        self._running.pop(waiting, None)
        self._going = deque(entry for entry in self._going if entry[0] is not waiting)

    def paused_until(self, now: float) -> float:
        return self._paused_until if self._running else math.inf

    def choose(
        self, priority: int, saturation: float, ceiling: float, in_flight: int, now: float
    ) -> Iterable[Waiting]:
        """Whom to end for a request of this priority: the lowest first, of those the newest."""
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
