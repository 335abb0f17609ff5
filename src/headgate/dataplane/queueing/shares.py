"""Shares one queue per pool among the workers of a gateway, up to a delay of a tenth of a second.

Every TELL_S a worker reports to its supervisor the queued requests of its pools and the usage of flows, if
there are any, and receives its shares of the common limits. Nothing waits for that: without a response, every
worker continues with its last shares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from headgate.flow.sharing import PoolReport, PoolShare

if TYPE_CHECKING:
    from headgate.requests.queueing.pending_report import PendingReport
    from headgate.requests.queueing.pool_queue import PoolQueue

TELL_S = 0.1


class Shares:
    """A worker's side. `send` delivers reports, and names of pools that are gone, to the supervisor, and
    returns whether it could."""

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
        """Pools that were reported."""
        self._timer = loop.call_later(TELL_S, self._tick)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TELL_S, self._tick)
        self.tell()

    def tell(self) -> None:
        """Send the reports that are due."""
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
        """The receiver has no state: report all queued requests again."""
        for queue in self._queues():
            if queue.tally is not None:
                queue.tally.was_active = True
        self._send({}, ())
        self.tell()

    def told(self, shares: Mapping[str, PoolShare]) -> None:
        """Apply these shares."""
        now = self._loop.time()
        for queue in self._queues():
            share = shares.get(queue.name)
            if share is not None and queue.tally is not None:
                queue.tally.heard_at = now
                queue.take_share(share, now)

    def stop(self) -> None:
        self._timer.cancel()
