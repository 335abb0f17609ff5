"""Wakes a queue on the event loop: once in its next iteration, however often requested, or at a set time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

SOONEST_S = 0.001
"""Minimum interval between two looks at set times."""


class LoopAlarm:
    """Calls `look` with the time in a later iteration of the loop."""

    __slots__ = ("_look", "_loop", "_now", "_timer", "_woken")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float],
        look: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._now = now
        self._look = look
        self._woken: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Wake in the next iteration."""
        if self._woken is None:
            self._woken = self._loop.call_soon(self._ring)

    def wake_at(self, at: float, now: float) -> None:
        """Wake at this time, unless woken earlier; infinity means never."""
        if self._woken is None and at < math.inf:
            self._timer = self._loop.call_at(max(at, now + SOONEST_S), self.wake)

    def stop(self) -> None:
        """Cancel the alarm: the queue is looking already, or has nothing to look for."""
        if self._woken is not None:
            self._woken.cancel()
            self._woken = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._look(self._now())
