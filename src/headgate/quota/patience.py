"""How long requests wait for a response of an account."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LATE_FRACTION, VERY_LATE_FRACTION = 0.8, 0.1
"""Fractions of `wait_s`: after the first, the loop gets the second to read what may have arrived already."""
SOON_FRACTION = 0.5
"""A response within this fraction of `wait_s` is early."""
TIME_TO_ASK_AGAIN = 1.0 - LATE_FRACTION - VERY_LATE_FRACTION
"""Fraction of `wait_s`: a second wait within it keeps the total within `wait_s`."""


class Patience:
    """The longest wait, and timers that fire in time to keep it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wait_s: float) -> None:
        self.wait_s = wait_s
        self._loop = loop

    def watch(self, then: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        """Call `then` when it is too late, unless cancelled."""
        return self._loop.call_later(self.wait_s * LATE_FRACTION, self._late, then, arguments)

    def _late(self, then: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """Call `then` a little later: if the loop was busy, the response may have arrived and is read in a
        moment."""
        self._loop.call_later(self.wait_s * VERY_LATE_FRACTION, then, *arguments)

    def is_late(self, began_at: float) -> bool:
        """Whether a response to what was sent then is late by now."""
        return self._loop.time() - began_at >= self.wait_s * LATE_FRACTION

    def is_in_time(self, took_s: float) -> bool:
        return took_s <= self.wait_s * (LATE_FRACTION + VERY_LATE_FRACTION)

    def is_early(self, took_s: float) -> bool:
        return took_s <= self.wait_s * SOON_FRACTION
