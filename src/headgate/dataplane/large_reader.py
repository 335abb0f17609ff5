"""Reads large request bodies in threads, so that none of them blocks the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from headgate.requests.bodies import large

if TYPE_CHECKING:
    from headgate.requests.client import Header

log = logging.getLogger(__name__)

_SHORT_BYTES = 4 << 20
"""Bodies up to this size need not wait for longer ones: they have a thread of their own."""


class Reading:
    """A body being read for a request that may be cancelled."""

    def __init__(self, then: Callable[[large.Body | None], None]) -> None:
        self._then: Callable[[large.Body | None], None] | None = then
        self.future: Future[large.Body] | None = None

    def cancel(self) -> None:
        self._then = None
        if self.future is not None:
            self.future.cancel()

    def done(self, body: large.Body | None) -> None:
        then, self._then, self.future = self._then, None, None
        if then is not None:
            then(body)


class Reader:
    """Reads large bodies in threads, for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._short = ThreadPoolExecutor(1, "large-body")
        self._long = ThreadPoolExecutor(1, "largest-body")
        self.count = 0

    def begin(
        self,
        headers: list[Header],
        body: bytes | bytearray,
        path: str,
        then: Callable[[large.Body | None], None],
    ) -> Reading:
        """Call `then` on the loop with the result, or with None if reading failed."""
        self.count += 1
        reading = Reading(then)
        executor = self._short if len(body) <= _SHORT_BYTES else self._long
        future = reading.future = executor.submit(large.read, headers, body, path)
        future.add_done_callback(lambda future: self._tell(reading, future))
        return reading

    async def read(self, headers: list[Header], body: bytes | bytearray, path: str) -> large.Body:
        """The same for a coroutine."""
        executor = self._short if len(body) <= _SHORT_BYTES else self._long
        return await self._loop.run_in_executor(executor, large.read, headers, body, path)

    def _tell(self, reading: Reading, future: Future[large.Body]) -> None:
        """Called in the thread, or on the loop for a cancelled reading."""
        if future.cancelled():
            return
        body: large.Body | None = None
        if error := future.exception():
            log.error("a large request body could not be read", exc_info=error)
        else:
            body = future.result()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(reading.done, body)

    def close(self) -> None:
        for executor in (self._short, self._long):
            executor.shutdown(wait=False, cancel_futures=True)
