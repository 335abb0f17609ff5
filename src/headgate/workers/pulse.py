"""An event that happens again and again, for any number of waiters."""

from __future__ import annotations

import asyncio


class Pulse:
    def __init__(self) -> None:
        self._next = asyncio.Event()

    @property
    def next(self) -> asyncio.Event:
        """Set at the next beat. Get it before looking at what may have changed, to miss no beat."""
        return self._next

    def beat(self) -> None:
        """Wake all waiters."""
        self._next.set()
        self._next = asyncio.Event()
