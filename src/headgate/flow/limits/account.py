"""One direction of a route's limit: its budget and its counters."""

from __future__ import annotations

from typing import Literal

from headgate.flow.limits.budget import Budget

Direction = Literal["input", "output"]


class Account:
    """Counts the tokens that a route's requests reserve and use in one direction."""

    __slots__ = ("budget", "direction", "refused", "reserved", "used")

    def __init__(self, direction: Direction, budget: Budget) -> None:
        self.direction = direction
        self.budget = budget
        self.reserved = 0
        """Tokens reserved for requests in flight."""
        self.used = 0
        """Tokens of finished requests."""
        self.refused = 0
        """Requests rejected for lack of tokens."""

    def settle(self, reserved: int, used: int, now: float) -> None:
        """Settle a request that has ended: return what it did not use of its reservation, or charge what it
        used beyond it."""
        self.reserved -= reserved
        self.used += used
        if used < reserved:
            self.budget.give_back(reserved - used, now)
        elif used > reserved:
            self.budget.charge(used - reserved, now)
