"""Work of a gateway that outlasts the request or the call that began it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol


class LeftBehind(Protocol):
    """A call to an endpoint that continues for a while after its request."""

    def drop(self) -> None:
        """End it at once."""


class Background:
    """Owned by a Shell; `close` ends everything."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()
        self.left_behind: set[LeftBehind] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def drop_left_behind(self) -> None:
        """End the calls whose requests are over."""
        for each in list(self.left_behind):
            each.drop()

    async def close(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
