"""Membership of one process: the number of members, and its own share."""

from __future__ import annotations

import math
from collections.abc import Iterable

from headgate.flow.limits import LeasedBudget, Presence, Share, Standing

PRESENT_S = 3.0
"""Interval for reporting this process and learning the number of members."""


class Membership:
    """What a source reports about itself and is assigned; its budgets use that while the account is
    unreachable."""

    def __init__(self, members: int, now: float) -> None:
        """`members`: the expected number until it is known."""
        self.members = members
        self._share = Share(now)
        self._used: dict[LeasedBudget, int] = {}
        """Use of each budget at the last report."""
        self._reported_at = -math.inf

    @property
    def fraction(self) -> float | None:
        """Fraction of each limit; None if none was promised: then shares are equal."""
        return self._share.fraction

    @property
    def is_known(self) -> bool:
        """Whether this process was ever counted by the book."""
        return self._share.members > 0

    def expect(self, members: int) -> bool:
        """Assume `members`; False if the number is known or unchanged."""
        if self.is_known or members == self.members:
            return False
        self.members = members
        return True

    def is_due(self, now: float) -> bool:
        """Whether to report this process again."""
        return now - self._reported_at >= PRESENT_S

    def presence(self, budgets: Iterable[LeasedBudget], now: float, is_leaving: bool = False) -> Presence:
        """The report of this process: its use of all limits since the last one."""
        before, self._used = self._used, {budget: budget.used for budget in budgets}
        used = sum((at - before.get(each, 0)) / each.limit_per_s for each, at in self._used.items())
        return self._share.presence(used, now, is_leaving)

    def reported(self, now: float) -> None:
        """There was a response to the last report."""
        self._reported_at = now

    def told(self, standing: Standing, asked_at: float, now: float) -> None:
        self.members = standing.members or self.members
        self._share.told(standing, asked_at, now)

    def disconnect(self, budget: LeasedBudget, now: float) -> None:
        """Let the budget use this process's share from now on."""
        budget.disconnect(now, self.members, self.fraction)
