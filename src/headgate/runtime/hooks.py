"""Places for requests that wait for minutes: shared fairly, since anyone in the network can send them."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headgate.runtime.errors import ApiError

MOST: Final = 32
MOST_EACH: Final = 8
"""Requests at a time, and from one address: a Pod has one preStop hook for each engine."""


class Hooks:
    """Requests that wait, by the address of their client."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Timeout]] = collections.defaultdict(list)

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Have a place inside the block. Raises ApiError if there is none; also inside the block, once the
        place is needed for another address."""
        has = len(self._waiting.get(client, ()))
        if has >= MOST_EACH:
            raise ApiError(503, f"{MOST_EACH} requests of {client} wait for the engine already")
        if sum(map(len, self._waiting.values())) >= MOST:
            self._take_one(has)
        hook = asyncio.timeout(None)
        try:
            async with hook:
                self._waiting[client].append(hook)
                yield
        except TimeoutError as error:
            raise ApiError(503, "too many requests of this address wait for the engine") from error
        finally:
            self._remove(client, hook)

    def _remove(self, client: str, hook: asyncio.Timeout) -> None:
        own = self._waiting[client]
        if hook in own:
            own.remove(hook)
        if not own:
            del self._waiting[client]

    def _take_one(self, has: int) -> None:
        """End the newest request of the address with most, for one that has this many. Raises ApiError."""
        most = max(self._waiting.values(), key=len)
        if len(most) <= has + 1:
            raise ApiError(503, "too many requests wait for the engine already")
        most.pop().reschedule(asyncio.get_running_loop().time())
