"""The runs that one endpoint is believed to hold, in eviction order: least recently used first."""

from __future__ import annotations

import math
from collections import deque

from headgate.fleet.prefix.runs import Run

SPARE_USES = 64
"""How many uses are remembered, besides two per run, before outdated ones are dropped."""


class Held:
    """The runs of one endpoint. An endpoint that holds a run holds all before it in the prompt.

    A prompt's tail is evicted before its head, as in the engines: a head without its tail is useful, a tail
    without its head is not. Using a run uses all before it, so only the last one is recorded: once it is
    evicted, those before it come next, unless they were used since. All uses have different times.
    """

    __slots__ = ("_uses", "bit", "blocks", "limit", "size", "used_at")

    def __init__(self, bit: int, limit: int) -> None:
        self.bit = bit
        self.limit = limit
        """In the units of sizes."""
        self.size = 0
        self.blocks = 0
        self.used_at: dict[Run, float] = {}
        """The last use of each run."""
        self._uses: deque[tuple[float, Run]] = deque()
        """By time. Entries of runs that were used again later are outdated."""

    def use(self, run: Run, now: float) -> None:
        """Record that the endpoint holds everything up to the end of a run now."""
        uses, used_at, bit = self._uses, self.used_at, self.bit
        if uses and now <= uses[-1][0]:
            now = math.nextafter(uses[-1][0], math.inf)
        uses.append((now, run))
        each: Run | None = run
        while each is not None:
            if not each.holders & bit:
                each.holders |= bit
                each.answered = 0  # what another endpoint generated after it is not here
                self.size += each.size
                self.blocks += len(each.blocks)
            used_at[each] = now
            each = each.parent
        if len(uses) > 2 * len(used_at) + SPARE_USES:
            self._uses = deque(use for use in uses if used_at.get(use[1]) == use[0])

    def oldest(self) -> tuple[float, Run] | None:
        """The run to evict next, and its last use; None if nothing is held."""
        uses, used_at = self._uses, self.used_at
        while uses:
            use = uses[0]
            if used_at.get(use[1]) == use[0]:
                return use
            uses.popleft()
        return None

    def drop_oldest(self) -> Run:
        """Evict the run that `oldest` returns; returns it."""
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
        """Check the invariants; for tests."""
        assert self.size == sum(run.size for run in self.used_at)
        assert self.blocks == sum(len(run.blocks) for run in self.used_at)
        times = [at for at, _ in self._uses]
        assert times == sorted(set(times))
        told = {at: run for at, run in self._uses if self.used_at.get(run) == at}
        for run, at in self.used_at.items():
            assert run.holders & self.bit
            assert run.parent is None or self.used_at[run.parent] >= at
            assert at in told, "it would never leave"
