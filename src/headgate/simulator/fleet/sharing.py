"""The channel of several gateways in virtual time: their reports arrive after a delay, or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from headgate.fleet import sharing
from headgate.requests.data_plane import DataPlane
from headgate.requests.queueing.peer_shares import PeerShares
from headgate.requests.queueing.pending_report import PendingReport
from headgate.requests.queueing.pool_queue import PoolQueue


class Sharing:
    """Each member reports to all others once a period."""

    def __init__(
        self,
        period_s: float = 0.02,
        delay_s: float = 0.002,
        loss: float = 0.0,
        rng: random.Random | None = None,
    ) -> None:
        """`delay_s`: from one member to another. `loss`: the share of reports that do not arrive."""
        self.period_s = period_s
        self.delay_s = delay_s
        self.loss = loss
        self._rng = rng or random.Random(0)  # noqa: S311
        self.sent_bytes = 0
        self.reports = 0
        self.members: list[sharing.Members] = []
        self._reporters: list[sharing.Reporter] = []
        self._shares: list[PeerShares] = []
        """Of the queues of each member."""

    def join(self, planes: Sequence[DataPlane]) -> None:
        """Called once, before the first request, with the data planes of all members."""
        for plane in planes:
            journal = plane.prefixes.journal = sharing.Journal()
            self._reporters.append(sharing.Reporter(plane.ledger, journal))
            self.members.append(sharing.Members(plane.ledger, plane.prefixes))
            queues = [pool.queue for pool in plane.pools.values() if isinstance(pool.queue, PoolQueue)]
            for queue in queues:
                queue.tally = PendingReport()
            self._shares.append(PeerShares(partial(iter, queues)))

    def exchange(self, now: float, later: Callable[[float, Callable[[float], None]], None]) -> None:
        """Let all members report. `later` calls a delivery after a delay in seconds, with the time then."""
        for number, reporter in enumerate(self._reporters):
            for silent in self.members[number].expire(now):
                self._shares[number].forget(str(silent), now)
            report = reporter.changes(now, self._shares[number].report(now, is_heard=True))
            if report is None:
                continue
            data = sharing.encode(report)
            self.reports += 1
            self.sent_bytes += len(data)
            heard = sharing.decode(data)
            for other in range(len(self.members)):
                if other != number and self._rng.random() >= self.loss:
                    later(self.delay_s, partial(self._hear, other, number, heard))

    def _hear(self, number: int, sender: int, report: sharing.Report, now: float) -> None:
        self.members[number].hear(sender, report, now)
        self._shares[number].hear(str(sender), report.queues, now)
