"""Which addresses and ports accept connections, by trying: what a status says about a port must be true.

A connection is closed at once, and nothing is sent. A place that does not accept is tried again soon, and one
that does every half minute.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import NamedTuple

SOON_S, LATER_S = 0.5, 30.0
SLOW_S = 10.0
"""The longest pause while a place does not accept."""
TIMEOUT_S = 2.0
CONCURRENT = 32


class Place(NamedTuple):
    """An address with a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Knowledge:
    """What is known about a place."""

    def __init__(self) -> None:
        self.accepts: bool | None = None
        self.next_at = 0.0
        self._pause_s = SOON_S

    def learned(self, accepts: bool, now: float) -> bool:
        """Whether something has changed."""
        changed = self.accepts is not accepts
        self._pause_s = SOON_S if changed else min(2 * self._pause_s, SLOW_S)
        self.accepts = accepts
        self.next_at = now + (LATER_S if accepts else self._pause_s)
        return changed


class Listening:
    """Follows the places that were last passed to `follow`, while `run()` runs."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when a place begins or ceases to accept connections."""
        self._changed = changed
        self._known: dict[Place, _Knowledge] = {}
        self._wake = asyncio.Event()

    def follow(self, places: Collection[Place]) -> None:
        added = [place for place in places if place not in self._known]
        self._known = {place: self._known.get(place) or _Knowledge() for place in places}
        if added:
            self._wake.set()

    def accepts(self, place: Place) -> bool | None:
        """None if it is not known yet."""
        known = self._known.get(place)
        return known.accepts if known is not None else None

    async def run(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            due = [place for place, known in self._known.items() if known.next_at <= loop.time()]
            for start in range(0, len(due), CONCURRENT):
                await self._try_all(due[start : start + CONCURRENT])
            next_at = min((known.next_at for known in self._known.values()), default=None)
            pause_s = None if next_at is None else max(0.0, next_at - loop.time())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()

    def statistics(self) -> dict[str, int]:
        return {
            "places": len(self._known),
            "accepting": sum(bool(each.accepts) for each in self._known.values()),
        }

    async def _try_all(self, places: Collection[Place]) -> None:
        results = await asyncio.gather(*map(_accepts, places))
        now = asyncio.get_running_loop().time()
        news = False
        for place, accepts in zip(places, results, strict=True):
            if (known := self._known.get(place)) is not None:
                news |= known.learned(accepts, now)
        if news:
            self._changed()


async def _accepts(place: Place) -> bool:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(place.host, place.port)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True
