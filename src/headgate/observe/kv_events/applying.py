"""Applies KV events slice by slice, and pauses in between: requests need the event loop too."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator

from headgate.fleet.prefix import kv_events

SLICE_BLOCKS = 2048
"""Blocks applied without a pause, which takes a few milliseconds: nearly any message has fewer."""
EVENT_BLOCKS = 8
"""Cost of an event or message besides its blocks, in blocks."""
BLOCK_BYTES = 1024
"""Bytes of a message that cost as much as a block, whatever they contain."""
RECEIVED_S = 50e-6
"""CPU time to receive a message, whatever it contains."""
REST = 3.0
"""Length of a pause relative to the work before it: requests need the event loop too."""
REST_OF_ALL = 1.5
"""The same across publishers: only one at a time is applied."""
SHORT_BYTES = 1024
"""A short payload costs almost nothing, and need not wait for its turn."""


class PublisherTurns:
    """Turns of all publishers of a process: one slice of one publisher is applied, then all pause."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """Run the work in the context; it must not await."""
        async with self._lock:
            began = time.thread_time()
            try:
                yield
            finally:
                await asyncio.sleep(REST_OF_ALL * (time.thread_time() - began))


class Work:
    """The work for one publisher since its last pause."""

    def __init__(self) -> None:
        self.blocks = 0
        """Blocks applied, or the cost of other work in blocks."""
        self._worked_s = 0.0
        """CPU time that they took."""

    def add(self, blocks: int, worked_s: float) -> None:
        self.blocks += blocks
        self._worked_s += worked_s

    async def pay_for(self, frames: list[bytes]) -> None:
        """Account for a message, even one without news, and pause if it is time."""
        self.add(EVENT_BLOCKS + sum(map(len, frames)) // BLOCK_BYTES, RECEIVED_S)
        await self.rest_if_due()

    async def rest_if_due(self) -> None:
        """Yield the event loop to others, however much an engine reports."""
        if self.blocks < SLICE_BLOCKS:
            return
        worked_s, self._worked_s, self.blocks = self._worked_s, 0.0, 0
        await asyncio.sleep(REST * worked_s)


class Applier:
    """Applies the messages of one publisher, and removes what it reported earlier."""

    def __init__(
        self,
        apply: Callable[[kv_events.Event], bool],
        clear: Callable[[], bool],
        turns: PublisherTurns,
        work: Work,
    ) -> None:
        """`clear` is called when all earlier reports are void, and again as long as it, or `apply`,
        returns that blocks are left to remove."""
        self._apply = apply
        self._clear = clear
        self._turns = turns
        self._work = work
        self._has_more_to_forget = False
        """Whether earlier reports are being removed."""

    async def apply(self, payload: bytes) -> None:
        """Apply a message: at once, unless it is large. Raises InvalidEventsError and TooManyBlocksError."""
        events = kv_events.read(payload)
        has_more = self._apply_slice(events) if len(payload) <= SHORT_BYTES else True
        while has_more:
            if self._has_more_to_forget:
                await self.forget()
            await self._work.rest_if_due()
            async with self._turns.next():
                has_more = self._apply_slice(events)

    def _apply_slice(self, events: Iterator[kv_events.Event]) -> bool:
        """Apply a slice of a message; returns whether there may be more of it."""
        began, blocks = time.thread_time(), 0
        try:
            for event in events:
                blocks += EVENT_BLOCKS + kv_events.cost(event)
                self._has_more_to_forget = self._apply(event)
                if blocks >= SLICE_BLOCKS or self._has_more_to_forget:
                    return True
            return False
        finally:
            self._work.add(blocks, time.thread_time() - began)

    async def forget(self) -> None:
        """Remove earlier reports, which are void, slice by slice."""
        self._has_more_to_forget = True
        while self._has_more_to_forget:
            async with self._turns.next():
                began = time.thread_time()
                self._has_more_to_forget = self._clear()
                self._work.add(SLICE_BLOCKS, time.thread_time() - began)
            await self._work.rest_if_due()
