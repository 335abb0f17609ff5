"""One queue of each pool for all workers of a gateway, as near to it as a tenth of a second comes.

Every TELL_S a worker tells its supervisor what waits for its pools and what flows had, if there is any of it,
and is told what it may do of what is set for all workers. Nothing waits for that: where nobody is heard,
everybody goes on by what was told last.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from headgate.flow.queue import Usage
from headgate.flow.sharing import Charges, PoolReport, PoolShare

if TYPE_CHECKING:
    from headgate.gateway.queueing.pool_queue import PoolQueue

TELL_S = 0.1
HEED_S = 1.0
"""So long after others told of a pool, they are told what runs of it here, although nothing waits."""


class Place(msgspec.Struct, frozen=True):
    """Which of how many workers this is, from 0."""

    workers: int
    number: int


ALONE = Place(1, 0)


class PendingReport:
    """What is to be told of one queue."""

    __slots__ = ("came", "charges", "heard_at", "told", "told_parts", "was_active")

    def __init__(self) -> None:
        self.came: Counter[int] = Counter()
        """Requests that wanted to wait, by their priority."""
        self.charges = Charges()
        self.heard_at = -math.inf
        """When others last told something of the pool."""
        self.was_active = False
        self.told: float | None = None
        """How full the pool was with what runs here, as last told."""
        self.told_parts: object = None
        """What this worker went by then."""

    def served(self, priority: int, flow: str, taken: Usage, sent: int | None) -> None:
        """A request is over; `sent` is the work that was told when it went, if it had waited."""
        self.charges.add(
            priority,
            flow,
            sent=taken.work - sent if sent is not None else 0,
            prompt=taken.prompt_tokens,
            output=taken.output_tokens,
            cached=taken.cached_tokens,
            requests=taken.requests,
        )

    def missed(self, report: PoolReport) -> None:
        """It did not get to where it was told: all of it is told again."""
        self.was_active = True
        self.charges.add_all(report.charges)
        for priority, waits in report.bands.items():
            self.came[priority] += waits.came

    def report(self, queue: PoolQueue, now: float) -> PoolReport | None:
        """None where nothing is to be told."""
        is_active = bool(queue.held or self.came or self.charges)
        fullness = queue.room.fullness()
        is_heeded = now - self.heard_at < HEED_S and fullness != self.told
        parts = queue.parts()
        is_confirmed = parts == self.told_parts or self.heard_at == -math.inf
        if not (is_active or self.was_active or is_heeded) and is_confirmed:
            return None
        self.was_active, self.told, self.told_parts = is_active, fullness, parts
        came, self.came = self.came, Counter()
        return queue.report(came, self.charges.take(), now)


class Shares:
    """A worker's side. `send` brings reports, and names of pools that are gone, to the supervisor, and says
    whether it could."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        queues: Callable[[], Iterable[PoolQueue]],
        send: Callable[[Mapping[str, PoolReport], Collection[str]], bool],
    ) -> None:
        self._loop = loop
        self._queues = queues
        self._send = send
        self._told: set[str] = set()
        """Pools of which something was told."""
        self._timer = loop.call_later(TELL_S, self._tick)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TELL_S, self._tick)
        self.tell()

    def tell(self) -> None:
        """What there is to tell now."""
        now = self._loop.time()
        reports: dict[str, PoolReport] = {}
        tallies: dict[str, PendingReport] = {}
        names = set()
        for queue in self._queues():
            names.add(queue.name)
            if queue.tally is not None and (report := queue.tally.report(queue, now)) is not None:
                reports[queue.name], tallies[queue.name] = report, queue.tally
        gone = self._told - names
        if not (reports or gone):
            return
        if self._send(reports, gone):
            self._told = (self._told | reports.keys()) - gone
        else:
            for name, tally in tallies.items():
                tally.missed(reports[name])

    def begin_anew(self) -> None:
        """To somebody who knows nothing: all that waits is told again."""
        for queue in self._queues():
            if queue.tally is not None:
                queue.tally.was_active = True
        self._send({}, ())
        self.tell()

    def told(self, shares: Mapping[str, PoolShare]) -> None:
        """Goes by these from now on."""
        now = self._loop.time()
        for queue in self._queues():
            share = shares.get(queue.name)
            if share is not None and queue.tally is not None:
                queue.tally.heard_at = now
                queue.take_share(share, now)

    def stop(self) -> None:
        self._timer.cancel()
