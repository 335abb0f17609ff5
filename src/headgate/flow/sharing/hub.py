"""Where the reports of all processes come together."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

from headgate.flow.sharing import dividing
from headgate.flow.sharing.charges import Charges
from headgate.flow.sharing.reports import PoolReport, PoolShare, Waits

Who = TypeVar("Who", bound=Hashable)


class Hub(Generic[Who]):
    """Of one gateway. Whoever never told anything, not even of no pool, is told nothing."""

    def __init__(self, processes: int = 1) -> None:
        """So many there are at least: parts are kept for those that have told nothing yet."""
        self._processes = processes
        self._reports: dict[Who, Mapping[str, PoolReport]] = {}
        self._owed: dict[tuple[Who, str], Charges] = {}
        """What each has yet to be told of each pool."""
        self._changed: set[str] = set()

    def hear(self, who: Who, reports: Mapping[str, PoolReport]) -> None:
        """Of some pools; what was told of others stays."""
        self._reports[who] = {**self._reports.get(who, {}), **reports}
        self._changed |= reports.keys()
        for pool, report in reports.items():
            if report.charges:
                for other in self._reports.keys() - {who}:
                    self._owed.setdefault((other, pool), Charges()).add_all(report.charges)

    def drop(self, who: Who, pools: Collection[str]) -> None:
        """It has these pools no more."""
        known = self._reports.get(who, {})
        self._changed |= known.keys() & set(pools)
        self._reports[who] = {pool: report for pool, report in known.items() if pool not in pools}

    def forget(self, who: Who) -> None:
        """It has ended: what waited there waits no more."""
        self._changed |= self._reports.pop(who, {}).keys()
        self._owed = {key: charges for key, charges in self._owed.items() if key[0] != who}

    def shares(self) -> dict[Who, dict[str, PoolShare]]:
        """What each is to be told since this was last asked."""
        told: dict[Who, dict[str, PoolShare]] = {who: {} for who in self._reports}
        for pool in self._changed:
            self._share(pool, told)
        self._changed.clear()
        return {who: shares for who, shares in told.items() if shares}

    def _share(self, pool: str, told: Mapping[Who, dict[str, PoolShare]]) -> None:
        known = [reports[pool] for reports in self._reports.values() if pool in reports]
        if not known:
            self._owed = {key: charges for key, charges in self._owed.items() if key[1] != pool}
            return
        # Whoever has told nothing of the pool goes by the same bounds, and has nothing waiting or in flight.
        fullness = None if any(each.fullness is None for each in known) else 0.0
        silent = PoolReport(
            all=_empty(known[0].all),
            bands={priority: _empty(waits) for each in known for priority, waits in each.bands.items()},
            fullness=fullness,
        )
        reports = [each.get(pool, silent) for each in self._reports.values()]
        missing = max(self._processes - len(reports), 0)
        everybody = [*reports, *[silent] * missing]
        parts = dividing.parts([each.all for each in everybody])
        rooms = dividing.rooms(everybody)
        full = sum(each.fullness or 0.0 for each in reports)
        priorities = sorted({priority for each in reports for priority in each.bands})
        bands = {
            priority: dividing.parts([each.bands.get(priority, silent.bands[priority]) for each in everybody])
            for priority in priorities
        }
        for place, who in enumerate(self._reports):
            owed = self._owed.pop((who, pool), None)
            told[who][pool] = PoolShare(
                all=parts[place],
                bands={priority: of[place] for priority, of in bands.items()},
                room=rooms[place],
                elsewhere=full - (reports[place].fullness or 0.0),
                charges=owed.take() if owed is not None else (),
            )


def _empty(waits: Waits) -> Waits:
    return Waits(max_requests=waits.max_requests, max_bytes=waits.max_bytes)
