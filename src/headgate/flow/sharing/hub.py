"""Combines the reports of all processes."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

from headgate.flow.sharing import dividing
from headgate.flow.sharing.charges import Charges
from headgate.flow.sharing.promises import PromisedParts, Promises
from headgate.flow.sharing.reports import PoolReport, PoolShare, Waits

Who = TypeVar("Who", bound=Hashable)


class Hub(Generic[Who]):
    """The hub of one gateway. A process that has never reported, not even an empty report, gets no shares."""

    def __init__(self, processes: int = 1) -> None:
        """`processes`: the least number of processes. Parts are kept for those that have not reported yet."""
        self._processes = processes
        self._reports: dict[Who, Mapping[str, PoolReport]] = {}
        self._owed: dict[tuple[Who, str], Charges] = {}
        """Charges of each pool that each process has not received yet."""
        self._changed: set[str] = set()
        self._promises: dict[str, Promises[Who]] = {}
        """Promises of pools whose capacity is counted."""
        self._parts: dict[str, dict[int | None, PromisedParts[Who]]] = {}
        """For each pool: the parts of each band by priority, and of all bands under None. A band once
        reported stays, because it is never known when all processes have dropped their parts of it."""
        self._turn = 0

    def hear(self, who: Who, reports: Mapping[str, PoolReport]) -> None:
        """Apply reports of some pools; earlier reports of others stay."""
        self._reports[who] = {**self._reports.get(who, {}), **reports}
        self._changed |= reports.keys()
        for pool, report in reports.items():
            if report.fullness is not None:
                room = max(report.room, report.fullness)
                self._promises.setdefault(pool, Promises()).heard(who, report.turn, room)
            for priority, waits in _by_priority(report).items():
                of_pool = self._parts.setdefault(pool, {})
                of_pool.setdefault(priority, PromisedParts()).heard(who, report.turn, waits)
            if report.charges:
                for other in self._reports.keys() - {who}:
                    self._owed.setdefault((other, pool), Charges()).add_all(report.charges)

    def drop(self, who: Who, pools: Collection[str]) -> None:
        """Drop a process from these pools, which it no longer has."""
        known = self._reports.get(who, {})
        self._changed |= known.keys() & set(pools)
        for pool in pools:
            self._unpromise(pool, who)
        self._reports[who] = {pool: report for pool, report in known.items() if pool not in pools}

    def forget(self, who: Who) -> None:
        """Remove a process that has ended: nothing is queued there any more."""
        self._changed |= self._reports.pop(who, {}).keys()
        for pool in self._parts:
            self._unpromise(pool, who)
        self._owed = {key: charges for key, charges in self._owed.items() if key[0] != who}

    def _unpromise(self, pool: str, who: Who) -> None:
        if pool in self._promises:
            self._promises[pool].forget(who)
        for parts in self._parts.get(pool, {}).values():
            parts.forget(who)

    def shares(self) -> dict[Who, dict[str, PoolShare]]:
        """What to send to each process since the last call."""
        told: dict[Who, dict[str, PoolShare]] = {who: {} for who in self._reports}
        for pool in self._changed:
            self._share(pool, told)
        self._changed.clear()
        return {who: shares for who, shares in told.items() if shares}

    def _share(self, pool: str, told: Mapping[Who, dict[str, PoolShare]]) -> None:
        known = [reports[pool] for reports in self._reports.values() if pool in reports]
        if not known:
            self._promises.pop(pool, None)
            self._parts.pop(pool, None)
            self._owed = {key: charges for key, charges in self._owed.items() if key[1] != pool}
            return
        # A process without a report of this pool is bound by the same limits, with nothing queued or in
        # flight.
        fullness = None if any(each.fullness is None for each in known) else 0.0
        silent = PoolReport(fullness=fullness)
        reports = [each.get(pool, silent) for each in self._reports.values()]
        missing = max(self._processes - len(reports), 0)
        everybody = [*reports, *[silent] * missing]
        rooms = dividing.rooms(everybody)
        self._turn += 1
        waits = {who: _by_priority(each[pool]) if pool in each else {} for who, each in self._reports.items()}
        parts = {
            priority: promised.give(
                {who: own.get(priority) for who, own in waits.items()}, self._turn, missing
            )
            for priority, promised in self._parts[pool].items()
        }
        if fullness is not None:
            wanted = dict(zip(self._reports, rooms, strict=False))
            promises = self._promises.setdefault(pool, Promises())
            even = 1.0 / len(everybody)
            rooms = list(promises.give(wanted, self._turn, 1.0, even, missing).values())
        full = sum(each.fullness or 0.0 for each in reports)
        for place, who in enumerate(self._reports):
            owed = self._owed.pop((who, pool), None)
            told[who][pool] = PoolShare(
                all=parts[None][who],
                bands={priority: of[who] for priority, of in parts.items() if priority is not None},
                room=rooms[place],
                turn=self._turn,
                elsewhere=full - (reports[place].fullness or 0.0),
                charges=owed.take() if owed is not None else (),
            )


def _by_priority(report: PoolReport) -> dict[int | None, Waits]:
    """Queued requests of each band, and of all bands under None."""
    found: dict[int | None, Waits] = {None: report.all}
    found.update(report.bands.items())
    return found
