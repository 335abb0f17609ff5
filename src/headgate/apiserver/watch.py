"""Fan-out of committed writes to watchers.

There is no buffer per watcher. Each kind has one bounded log of its last events, and a watcher is only a
position in it, which advances as its client reads. A watcher so slow that the log has moved past it gets 410
Expired, as does one that asks for a resource version older than the log. So memory is bounded by the logs,
whatever the number and speed of watchers, and by the limit on unread responses.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from headgate.apiserver import errors
from headgate.apiserver.shares import Room
from headgate.apiserver.storage import Event, Store


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The watcher has seen everything up to this revision."""

    revision: int


class _Waiter:
    """One watcher waiting for an event or a time; cheaper than a timeout around an asyncio.Event."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._woken: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, until: float) -> None:
        """Wait until woken, or until the loop's time is `until`."""
        self._woken = self._loop.create_future()
        timer = self._loop.call_at(until, self.wake)
        try:
            await self._woken
        finally:
            timer.cancel()


class EventLog:
    """The last events of one kind, bounded in number and bytes."""

    def __init__(self, since: int, max_events: int, max_bytes: int) -> None:
        self._events: list[Event] = []
        self.bytes = 0
        """Bytes that its events hold in memory."""
        self._max_events = max_events
        self._max_bytes = max_bytes
        self.compacted = since
        """Events up to this revision are gone."""
        self.waiting: set[_Waiter] = set()
        """Watchers to wake when an event is appended."""

    def append(self, event: Event) -> None:
        self._events.append(event)
        self.bytes += event.size
        if len(self._events) > self._max_events or self.bytes > self._max_bytes:
            self.compact()
        self.wake()

    def wake(self) -> None:
        for waiter in self.waiting:
            waiter.wake()

    def size_after(self, revision: int, limit: int, max_bytes: int) -> int:
        """The bytes of what `after` would return; 0 if there is nothing."""
        return sum(event.size for event in self.after(revision, limit, max_bytes))

    def after(self, revision: int, limit: int, max_bytes: int = 1 << 62) -> list[Event]:
        """Up to `limit` events after a revision, about `max_bytes` in total, but at least one if there is
        any.

        410 if some of them are gone.
        """
        if revision < self.compacted:
            raise errors.expired(f"too old resource version: {revision} ({self.compacted})")
        start = bisect_right(self._events, revision, key=lambda event: event.revision)
        batch = self._events[start : start + limit]
        size = 0
        for number, event in enumerate(batch, 1):
            size += event.size
            if size >= max_bytes:
                return batch[:number]
        return batch

    def compact(self) -> None:
        # Drop a quarter at once, to amortize the cost of moving the rest.
        drop = max(1, len(self._events) // 4)
        self.compacted = self._events[drop - 1].revision
        self.bytes -= sum(event.size for event in self._events[:drop])
        del self._events[:drop]


class Hub:
    """The event logs; `close()` ends every watch."""

    BATCH = 64
    BATCH_BYTES = 256 * 1024
    """What a watcher takes at a time: as much as a slow one keeps in memory when the log has moved on."""

    def __init__(
        self,
        store: Store,
        *,
        max_events: int = 4096,
        max_bytes: int = 16 << 20,
        max_bytes_in_all: int = 64 << 20,
    ) -> None:
        self._store = store
        self._start = store.told
        self._logs: dict[str, EventLog] = {}
        self._limits = (max_events, max_bytes)
        self._max_bytes_in_all = max_bytes_in_all
        self._watchers = 0
        self._bytes = 0
        self.closed = False
        store.listen(self._append)

    def check(self, resource: str, since: int) -> None:
        """Reject a watch that cannot start: an expired or future resource version."""
        if self.closed:
            raise errors.unavailable("the API server is shutting down")
        if since > self._store.told:
            raise errors.too_large_revision(since, self._store.told)
        self._log(resource).after(since, 0)

    def after(self, resource: str, revision: int) -> list[Event]:
        """Every event of a kind after a revision; 410 if some of them are gone."""
        return self._log(resource).after(revision, self._limits[0] + 1)

    async def follow(
        self, resource: str, since: int, *, until: float, bookmark_s: float | None, room: Room | None = None
    ) -> AsyncGenerator[list[Event] | Bookmark, None]:
        """Batches of events after `since` until the loop time `until`, with bookmarks in between and at the
        end.

        A batch takes its bytes from `room` until the reader asks for the next one. A reader waiting for
        `room` holds nothing. Raises 410 when the reader has fallen behind the log.
        """
        log = self._log(resource)
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop)
        log.waiting.add(waiter)
        self._watchers += 1
        try:
            next_bookmark = loop.time() + bookmark_s if bookmark_s else until
            while not self.closed and loop.time() < until:
                # Read the position before the events: all events up to it are in this batch or an earlier
                # one.
                position = self._store.told
                if size := log.size_after(since, self.BATCH, self.BATCH_BYTES):
                    taken = await room.enter(size) if room else 0
                    try:
                        batch = log.after(since, self.BATCH, self.BATCH_BYTES)
                        since = batch[-1].revision
                        yield batch
                        del batch
                    finally:
                        if room:
                            room.leave(taken)
                    continue
                if loop.time() >= next_bookmark and bookmark_s:
                    next_bookmark = loop.time() + bookmark_s
                    since = max(since, position)
                    yield Bookmark(position)
                    continue
                await waiter.wait(min(until, next_bookmark))
            if bookmark_s and not self.closed:
                yield Bookmark(since)
        finally:
            log.waiting.discard(waiter)
            self._watchers -= 1

    def close(self) -> None:
        self.closed = True
        for log in self._logs.values():
            log.wake()

    def statistics(self) -> dict[str, int]:
        return {"watchers": self._watchers, "logs": len(self._logs), "bytes": self._bytes}

    def _append(self, event: Event) -> None:
        log = self._log(event.new.key.resource)
        self._bytes -= log.bytes
        log.append(event)
        self._bytes += log.bytes
        while self._bytes > self._max_bytes_in_all:
            largest = max(self._logs.values(), key=lambda log: log.bytes)
            self._bytes -= largest.bytes
            largest.compact()
            self._bytes += largest.bytes

    def _log(self, resource: str) -> EventLog:
        if (log := self._logs.get(resource)) is None:
            log = self._logs[resource] = EventLog(self._start, *self._limits)
        return log
