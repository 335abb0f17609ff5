"""Shares of queues among processes that have no hub, such as gateways or pickers: each computes its own from
the reports of all.

Reports are a few hundredths of a second old. So while shares move, common limits may be exceeded by what
arrives in that time; nothing waits for a report, and a process that is gone is forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from headgate.flow.sharing import dividing
from headgate.flow.sharing.charges import Charges
from headgate.flow.sharing.reports import Part, PoolReport, PoolShare, Waits

Who = TypeVar("Who", bound=Hashable)
_NOTHING: Final = PoolReport()


class Exchange(Generic[Who]):
    """The reports of the other processes. A process without a report of a pool has nothing queued for it."""

    def __init__(self) -> None:
        self._reports: dict[Who, Mapping[str, PoolReport]] = {}
        self._owed: dict[str, Charges] = {}
        """What flows used in other processes since the last share, for pools in use here or there."""

    @property
    def is_alone(self) -> bool:
        return not self._reports

    def hear(self, who: Who, reports: Mapping[str, PoolReport]) -> set[str]:
        """Replace the reports of a process; those of no pools only say that it exists. Returns the pools
        whose shares may have changed."""
        changed = {*self._reports.get(who, ()), *reports}
        self._reports[who] = reports
        for pool, report in reports.items():
            if report.charges:
                self._owed.setdefault(pool, Charges()).add_all(report.charges)
        return changed

    def knows(self, who: Who) -> bool:
        return who in self._reports

    def forget(self, who: Who) -> None:
        """Remove a process that has ended: nothing is queued there any more."""
        self._reports.pop(who, None)

    def keep(self, pools: Iterable[str]) -> None:
        """Forget the charges of all other pools."""
        kept = set(pools)
        self._owed = {pool: charges for pool, charges in self._owed.items() if pool in kept}

    def share(self, pool: str, own: PoolReport) -> PoolShare:
        """The share of this process, whose report is `own`. Its `room` is the fraction of the requests in
        flight that is fair to the flows queued in all processes."""
        others = [reports.get(pool, _NOTHING) for reports in self._reports.values()]
        everybody = (own, *others)
        priorities = {priority for each in everybody for priority in each.bands}
        waiting = [each for each in others if each.backlog]
        rooms = dividing.rooms([PoolReport(backlog=each.backlog) for each in (own, *waiting)])
        owed = self._owed.pop(pool, None)
        return PoolShare(
            all=_own_part([each.all if each is not _NOTHING else None for each in everybody]),
            bands={
                priority: _own_part([each.bands.get(priority) for each in everybody])
                for priority in priorities
            },
            room=rooms[0],
            waiting_elsewhere=max((row.priority for each in waiting for row in each.backlog), default=None),
            processes=1 + len(waiting),
            charges=owed.take() if owed is not None else (),
        )


def _own_part(waits: list[Waits | None]) -> Part:
    """The part of the first process. One without a report has nothing queued, and is bound by the same
    limits."""
    known = [each for each in waits if each is not None]
    nothing = Waits(
        max_requests=max(each.max_requests for each in known), max_bytes=max(each.max_bytes for each in known)
    )
    return dividing.parts([each or nothing for each in waits])[0]
