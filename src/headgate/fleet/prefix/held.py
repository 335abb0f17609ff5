"""What one endpoint is believed to hold, and in which order it leaves: what was used longest ago first."""

from __future__ import annotations

import math
from collections import deque

from headgate.fleet.prefix.runs import Run

SPARE_USES = 64
"""How many uses are remembered, besides two for each run, before those that do not count are dropped."""


class Held:
    """The runs of one endpoint. Where one is held, all before it in its prompt are held as well.

    A prompt's tail leaves before its head, as in the engines: a head without its tail is of use, a tail
    without its head is not. To use a run is to use all before it, so that only the last one is noted: as it
    leaves, those before it come next, as far as they have not been used since. No two uses have one time.
    """

    __slots__ = ("_uses", "bit", "blocks", "limit", "size", "used_at")

    def __init__(self, bit: int, limit: int) -> None:
        self.bit = bit
        self.limit = limit
        """In units, as sizes are."""
        self.size = 0
        self.blocks = 0
        self.used_at: dict[Run, float] = {}
        """The last use of each run."""
        self._uses: deque[tuple[float, Run]] = deque()
        """In the order of time; those of runs that were used again later do not count."""

    def use(self, run: Run, now: float) -> None:
        """Notes that all up to the end of a run is there now."""
        uses, used_at, bit = self._uses, self.used_at, self.bit
        if uses and now <= uses[-1][0]:
            now = math.nextafter(uses[-1][0], math.inf)
        uses.append((now, run))
        each: Run | None = run
        while each is not None:
            if not each.holders & bit:
                each.holders |= bit
                each.answered = 0  # what another has generated behind it is not here
                self.size += each.size
                self.blocks += len(each.blocks)
            used_at[each] = now
            each = each.parent
        if len(uses) > 2 * len(used_at) + SPARE_USES:
            self._uses = deque(use for use in uses if used_at.get(use[1]) == use[0])

    def oldest(self) -> tuple[float, Run] | None:
        """The run that leaves next, and when it was used last; None if nothing is held."""
        uses, used_at = self._uses, self.used_at
        while uses:
            use = uses[0]
            if used_at.get(use[1]) == use[0]:
                return use
            uses.popleft()
        return None

    def drop_oldest(self) -> Run:
        """Lets the run go that `oldest` tells of; returns it."""
        at, run = self._uses.popleft()
        del self.used_at[run]
        run.holders ^= self.bit
        self.size -= run.size
        self.blocks -= len(run.blocks)
        parent = run.parent
        if parent is not None and self.used_at[parent] == at:
            self._uses.appendleft((at, parent))
        return run

    def validate(self) -> None:
        """Checks the invariants; for tests."""
        assert self.size == sum(run.size for run in self.used_at)
        assert self.blocks == sum(len(run.blocks) for run in self.used_at)
        times = [at for at, _ in self._uses]
        assert times == sorted(set(times))
        told = {at: run for at, run in self._uses if self.used_at.get(run) == at}
        for run, at in self.used_at.items():
            assert run.holders & self.bit
            assert run.parent is None or self.used_at[run.parent] >= at
            assert at in told, "it would never leave"
