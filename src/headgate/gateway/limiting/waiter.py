"""A request that waits for tokens, as it is known to where they come from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Waiter:
    """A request that waits for a lease."""

    __slots__ = ("_loop", "_then", "_timer", "began_at", "is_over")

    def __init__(self, loop: asyncio.AbstractEventLoop, then: Callable[[], None]) -> None:
        self.began_at = loop.time()
        self._loop = loop
        self._then = then
        self._timer: asyncio.Handle | None = None
        self.is_over = False

    def watch(self, timer: asyncio.TimerHandle) -> None:
        self._timer = timer

    def cancel(self) -> None:
        """Its request is gone."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def end(self) -> None:
        """The request goes on, with a lease or without; what befalls it there is not the source's."""
        if not self.is_over:
            self.cancel()
            self._timer = self._loop.call_soon(self._then)
