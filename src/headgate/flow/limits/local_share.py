"""A member's local share of a limit: what it may use while the account is unreachable."""

from __future__ import annotations

import math

from headgate.flow.limits.budget import LocalBudget


class LocalShare:
    """The size of the share, its budget while it is in use, and what has come into it since the last
    grant."""

    __slots__ = ("_inflow", "_since", "budget", "fraction", "members")

    def __init__(self, members: int, now: float) -> None:
        self.members = members
        self.fraction: float | None = None
        """Fraction of the limit; None is 1/members."""
        self.budget: LocalBudget | None = None
        """The budget while the account is unreachable."""
        self._inflow = 0.0
        """Tokens that came into the share since the last grant, until the last disconnect."""
        self._since = now
        """When the share began to fill, while it is in use."""

    def of(self, tokens: float) -> int:
        return math.floor(tokens / self.members if self.fraction is None else tokens * self.fraction)

    def of_limit(self, limit: int) -> int:
        return max(self.of(limit), 1)

    def begin(self, level: float, limit: int, unit_s: int, now: float) -> None:
        """Use the share of the account's level from now on."""
        size = self.of_limit(limit)
        budget = LocalBudget(size, unit_s, now)
        budget.charge(max(size - self.of(level), 0), now)
        self.budget = budget
        self._since = now

    def end(self, limit: int, unit_s: int, now: float) -> None:
        self._inflow = self.inflow(limit, unit_s, now)
        self.budget = None

    def resize(self, limit: int, unit_s: int, now: float) -> None:
        """Apply another limit or number of members; what was used stays used."""
        if self.budget is not None:
            self.budget.change(self.of_limit(limit), unit_s, now)

    def inflow(self, limit: int, unit_s: int, now: float) -> float:
        """Tokens that came into the share since the last grant."""
        if self.budget is None:
            return self._inflow
        return self._inflow + (now - self._since) * self.of_limit(limit) / unit_s

    def restart_inflow(self, at: float) -> None:
        """The account knows of everything that came in before `at`."""
        self._inflow, self._since = 0.0, at
