"""Requests that wait for tokens from a source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from headgate.flow.limits import LeasedBudget


class Waiter:
    """A request that waits for a lease."""

    __slots__ = ("_loop", "_then", "_timer", "began_at", "budgets", "is_over")

    def __init__(self, loop: asyncio.AbstractEventLoop, then: Callable[[], None]) -> None:
        self.began_at = loop.time()
        self._loop = loop
        self._then = then
        self._timer: asyncio.Handle | None = None
        self.budgets: list[LeasedBudget] = []
        """The budgets that it waits for."""
        self.is_over = False

    def watch(self, timer: asyncio.TimerHandle) -> None:
        self._timer = timer

    def cancel(self) -> None:
        """Stop waiting, because the request is gone."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def end(self) -> None:
        """Resume the request, with or without a lease, in a callback of its own, so that its errors do not
        affect the source."""
        if not self.is_over:
            self.cancel()
            self._timer = self._loop.call_soon(self._then)


class Waiters:
    """All waiters of one source: those without a claim yet, and those with a claim sent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.count = 0
        """All waiters so far."""
        self.longest_wait_s = 0.0
        self._loop = loop
        self._unclaimed: dict[LeasedBudget, list[Waiter]] = {}
        self._claimed: list[Waiter] = []

    def add(self, budget: LeasedBudget, then: Callable[[], None]) -> Waiter:
        self.count += 1
        waiter = Waiter(self._loop, then)
        self._unclaimed.setdefault(budget, []).append(waiter)
        return waiter

    def __contains__(self, budget: object) -> bool:
        """Whether any waiter for this budget has no claim yet."""
        return budget in self._unclaimed

    def mark_claimed(self, budget: LeasedBudget) -> None:
        """Record that the claim for these waiters is being sent."""
        self._claimed += self._unclaimed.pop(budget, ())

    def end_claimed(self) -> None:
        claimed, self._claimed = self._claimed, []
        self._end(claimed)

    def end_unclaimed(self, budget: LeasedBudget) -> None:
        self._end(self._unclaimed.pop(budget, ()))

    def end(self, waiter: Waiter) -> None:
        self._end([waiter])

    def end_all(self) -> None:
        self.end_claimed()
        for budget in list(self._unclaimed):
            self.end_unclaimed(budget)

    def _end(self, waiters: Iterable[Waiter]) -> None:
        now = self._loop.time()
        for waiter in waiters:
            if not waiter.is_over:
                self.longest_wait_s = max(self.longest_wait_s, now - waiter.began_at)
                waiter.end()
