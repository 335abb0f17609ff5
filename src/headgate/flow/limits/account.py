"""One direction of one route's limit: its budget, and what is told of it."""

from __future__ import annotations

from typing import Literal

from headgate.flow.limits.budget import Budget

Direction = Literal["input", "output"]


class Account:
    """Counts what requests of a route reserve and use in one direction."""

    __slots__ = ("budget", "direction", "refused", "reserved", "used")

    def __init__(self, direction: Direction, budget: Budget) -> None:
        self.direction = direction
        self.budget = budget
        self.reserved = 0
        """Tokens that are taken for requests under way."""
        self.used = 0
        """Tokens of requests that are over."""
        self.refused = 0
        """Requests for which there was not enough."""

    def settle(self, reserved: int, used: int, now: float) -> None:
        """A request is over: less than what was reserved for it is given back, more goes into debt."""
        self.reserved -= reserved
        self.used += used
        if used < reserved:
            self.budget.give_back(reserved - used, now)
        elif used > reserved:
            self.budget.charge(used - reserved, now)
