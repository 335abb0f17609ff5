"""The budgets of one source."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Collection, Iterable, Iterator

from headgate.flow.limits import LeasedBudget
from headgate.quota.transport import Refused

MAX_CLAIMS = 128
"""Claims per exchange; other budgets wait for the next."""
LOOK_S = 0.5
"""Interval for checking budgets that have not called."""


class Budgets:
    """All budgets, those that have something to claim or report, and those that the accounts refuse."""

    def __init__(self, member: str, is_strict: bool) -> None:
        """`member`: unique to this process and source."""
        self.is_strict = is_strict
        self.wake = asyncio.Event()
        """Set when a budget was made or has called."""
        self._member = member
        self._numbers = itertools.count(1)
        self._all: dict[LeasedBudget, None] = {}
        self._called: dict[LeasedBudget, None] = {}
        self._rejected: dict[LeasedBudget, Refused] = {}
        self._collected_at = -math.inf

    def __contains__(self, budget: object) -> bool:
        return budget in self._all

    def __iter__(self) -> Iterator[LeasedBudget]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def make(self, account: str, limit: int, unit_s: int, members: int, now: float) -> LeasedBudget:
        """A new member's budget of this account."""
        member = f"{self._member}.{next(self._numbers)}"
        budget = LeasedBudget(account, member, limit, unit_s, now, self.call, members)
        budget.is_strict = self.is_strict
        self._all[budget] = None
        self.wake.set()
        return budget

    def drop(self, budget: LeasedBudget) -> None:
        """Remove a budget. If one of its requests ends later, the use is reported once more."""
        budget.is_called = False
        self._all.pop(budget, None)
        self._called.pop(budget, None)
        self._rejected.pop(budget, None)

    def other_than(self, used: Iterable[object]) -> Collection[LeasedBudget]:
        return self._all.keys() - set(used)

    def change(self, is_strict: bool) -> None:
        self.is_strict = is_strict
        for budget in self._all:
            budget.is_strict = is_strict

    # -- claims

    @property
    def has_called(self) -> bool:
        """Whether any budget has something to claim or report."""
        return bool(self._called)

    def call(self, budget: LeasedBudget) -> None:
        """The budget has something to claim or report, even if it was dropped before."""
        self._all[budget] = None
        self._called[budget] = None
        self.wake.set()

    def collect_due(self, now: float) -> bool:
        """Include budgets that have something to report and did not call; False if it is too soon to check
        that again."""
        if now - self._collected_at < LOOK_S:
            return False
        self._collected_at = now
        self._called.update((budget, None) for budget in self._all if budget.is_due(now))
        return True

    def next_called(self) -> list[LeasedBudget]:
        """The budgets for the next exchange, which have not called any more."""
        budgets = list(itertools.islice(self._called, MAX_CLAIMS))
        for budget in budgets:
            del self._called[budget]
        return budgets

    # -- refusals

    @property
    def rejected(self) -> Iterable[tuple[LeasedBudget, Refused]]:
        """Budgets whose accounts do not count, and why."""
        return self._rejected.items()

    def is_rejected(self, budget: LeasedBudget) -> bool:
        return budget in self._rejected

    def reject(self, budget: LeasedBudget, why: Refused) -> None:
        self._rejected[budget] = why

    def accept(self, budget: LeasedBudget) -> None:
        self._rejected.pop(budget, None)
