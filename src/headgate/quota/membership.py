"""How one process stands among those that count together: how many they are, and which share is its own."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.flow.limits import LeasedBudget, Presence, Share, Standing


class Membership:
    """What a source says of itself, and is told; its budgets go by that while they cannot count together."""

    def __init__(self, members: int, now: float) -> None:
        """`members` is how many there are until it is known."""
        self.members = members
        self._share = Share(now)
        self._used: dict[LeasedBudget, int] = {}
        """What budgets had used when it was last told."""

    @property
    def fraction(self) -> float | None:
        """Of each limit; None where none was promised, and shares are equal."""
        return self._share.fraction

    @property
    def is_known(self) -> bool:
        """Whether others were ever told that it is there."""
        return self._share.members > 0

    def expect(self, members: int) -> bool:
        """Takes that there are so many; False where that is known better, or nothing new."""
        if self.is_known or members == self.members:
            return False
        self.members = members
        return True

    def presence(self, budgets: Iterable[LeasedBudget], now: float, is_leaving: bool = False) -> Presence:
        """That this process is there, and what it used of all limits since that was last told."""
        before, self._used = self._used, {budget: budget.used for budget in budgets}
        used = sum((at - before.get(each, 0)) / each.limit_per_s for each, at in self._used.items())
        return self._share.presence(used, now, is_leaving)

    def told(self, standing: Standing, asked_at: float, now: float) -> None:
        self.members = standing.members or self.members
        self._share.told(standing, asked_at, now)

    def disconnect(self, budget: LeasedBudget, now: float) -> None:
        """From now on the budget goes by this process' share."""
        budget.members = max(budget.members, self.members)
        budget.fraction = self.fraction
        budget.disconnect(now)
