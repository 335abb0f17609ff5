"""The work queue of controllers: one entry and one worker per key, with backoff after failures.

`DueKeys` is the queue without a clock, so that tests cover hours of retries; `WorkQueue` adds the event
loop's clock and lets workers wait.
"""

import asyncio
import heapq
import itertools
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headgate.cluster.errors import ApiError
from headgate.cluster.outage import Backoff

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

_RETRY = Backoff(base_s=0.1, cap_s=60.0)
# A due time that moved forward leaves its old heap entry behind; beyond this many they are removed.
_STALE_ALLOWED = 64


@dataclass(frozen=True)
class WorkQueueStatistics:
    waiting: int
    """Keys that are due and wait for a worker."""
    delayed: int
    processing: int
    failing: int
    """Keys whose last attempt failed."""
    taken: int
    retries: int
    longest_wait_s: float
    """How long the key at the head is overdue."""


class DueKeys(Generic[Key]):
    """Which key is next, at a time that the caller provides.

    A key has at most one due time: the earliest requested since it was last taken. A key that is being
    processed is never handed out; requests for it meanwhile count from `done` on.
    """

    def __init__(self, backoff: Backoff = _RETRY) -> None:
        self._backoff = backoff
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._processing: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._taken = self._retries = 0

    def add(self, key: Key, due: float) -> None:
        """Hand out `key` at `due` or before; repeated calls have no further effect."""
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        if key not in self._processing:
            self._push(key)

    def retry(self, key: Key, now: float, rng: random.Random) -> float:
        """Hand out `key` again after its next backoff delay, which is returned."""
        self._retries += 1
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay_s = self._backoff.delay_s(failures, rng)
        self.add(key, now + delay_s)
        return delay_s

    def forget(self, key: Key) -> None:
        """The key succeeded: its next failure is a first one."""
        self._failures.pop(key, None)

    def take(self, now: float) -> Key | None:
        """The key that has been due the longest, which now counts as being processed; None if none is due."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._processing.add(key)
        self._taken += 1
        return key

    def done(self, key: Key) -> None:
        """The processing of `key` ended, successfully or not."""
        self._processing.discard(key)
        if key in self._due:
            self._push(key)

    def next_due(self) -> float | None:
        """When the next key can be taken; None if there is none."""
        while self._heap and self._is_stale(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def statistics(self, now: float) -> WorkQueueStatistics:
        open_due = [due for key, due in self._due.items() if key not in self._processing]
        waiting = sum(due <= now for due in open_due)
        return WorkQueueStatistics(
            waiting=waiting,
            delayed=len(open_due) - waiting,
            processing=len(self._processing),
            failing=len(self._failures),
            taken=self._taken,
            retries=self._retries,
            longest_wait_s=max(0.0, now - min(open_due, default=now)),
        )

    def validate(self) -> None:
        """Check that every key that can be taken is in the heap at its due time; for tests."""
        live = {entry[2] for entry in self._heap if not self._is_stale(entry)}
        assert live == self._due.keys() - self._processing

    def _push(self, key: Key) -> None:
        heapq.heappush(self._heap, (self._due[key], next(self._order), key))
        if len(self._heap) > 2 * len(self._due) + _STALE_ALLOWED:
            self._heap = [entry for entry in self._heap if not self._is_stale(entry)]
            heapq.heapify(self._heap)

    def _is_stale(self, entry: tuple[float, int, Key]) -> bool:
        due, _, key = entry
        return key in self._processing or self._due.get(key) != due


class WorkQueue(Generic[Key]):
    """`DueKeys` on the event loop's clock."""

    def __init__(self, backoff: Backoff = _RETRY, rng: random.Random | None = None) -> None:
        self._keys: DueKeys[Key] = DueKeys(backoff)
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._changed = asyncio.Event()

    def add(self, key: Key) -> None:
        """Hand out `key` as soon as a worker is free."""
        self.add_after(key, 0.0)

    def add_after(self, key: Key, delay_s: float) -> None:
        """Hand out `key` in `delay_s` seconds, or before if it is also requested earlier."""
        self._keys.add(key, _now() + delay_s)
        self._changed.set()

    def retry(self, key: Key) -> float:
        """Hand out `key` after its backoff delay in seconds, which is returned."""
        delay_s = self._keys.retry(key, _now(), self._rng)
        self._changed.set()
        return delay_s

    async def get(self) -> Key:
        """The next key; the caller calls `done` when it has processed it."""
        while (key := self._keys.take(_now())) is None:
            due = self._keys.next_due()
            self._changed.clear()
            try:
                async with asyncio.timeout_at(due):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return key

    def done(self, key: Key) -> None:
        self._keys.done(key)
        self._changed.set()

    def forget(self, key: Key) -> None:
        """`key` succeeded: its next failure is a first one."""
        self._keys.forget(key)

    def statistics(self) -> WorkQueueStatistics:
        return self._keys.statistics(_now())


async def run_workers(
    queue: WorkQueue[Key], reconcile: Callable[[Key], Awaitable[float | None]], workers: int = 2
) -> None:
    """Reconcile keys until cancelled; a failed key comes back after its backoff.

    `reconcile` may return seconds after which the key is due again.
    """
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(queue, reconcile))


async def _work(queue: WorkQueue[Key], reconcile: Callable[[Key], Awaitable[float | None]]) -> None:
    while True:
        key = await queue.get()
        try:
            again_s = await reconcile(key)
        except Exception as error:
            delay_s = queue.retry(key)
            # Errors of the server are expected; any other is a bug and needs its traceback.
            trace = None if isinstance(error, ApiError) else error
            log.warning("reconciling %s failed, again in %.1f s: %s", key, delay_s, error, exc_info=trace)
        else:
            queue.forget(key)
            if again_s is not None:
                queue.add_after(key, again_s)
        finally:
            queue.done(key)
        await asyncio.sleep(0)  # yield: thousands of keys may be due, none of which has to wait for anything


def _now() -> float:
    return asyncio.get_running_loop().time()
