"""The tokens of one direction of one route's limit: what may still be used, and how it comes back.

A token bucket: it holds at most the limit, starts full, and fills up evenly at the limit's rate. It may go
into debt, which the same rate pays off.
"""

from __future__ import annotations

import math
from typing import Protocol

_MICROSECONDS = 1_000_000


class Budget(Protocol):
    """One direction, input or output, of one route's limit, in tokens. `now` is monotonic seconds.

    What is taken is a reservation. Its owner settles it once: what was not used is given back, what was used
    beyond it is charged.
    """

    @property
    def limit(self) -> int:
        """Tokens in each unit of time, and the most that there may be at once."""

    def take(self, tokens: int, now: float) -> bool:
        """Reserves so many; False where there are fewer, and then nothing is taken."""

    def overdraw(self, tokens: int, now: float) -> bool:
        """Reserves so many if at least one is there, and goes into debt for what is missing; False if not
        even one is, and then nothing is taken."""

    def give_back(self, tokens: int, now: float) -> None:
        """Returns what was taken and not used; there are never more than the limit."""

    def charge(self, tokens: int, now: float) -> None:
        """Takes so many whatever there is: they were used already. What is missing becomes debt."""

    def available(self, now: float) -> float:
        """Tokens that are there; negative is debt."""

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until so many are there, if nothing else is taken; infinite if they never are."""

    def change(self, limit: int, unit_s: int, now: float) -> None:
        """Goes on by another limit at once; see LocalBudget for what becomes of what was used."""


class LocalBudget:
    """A budget that one process keeps for itself.

    It counts in whole numbers, of tokens times microseconds of the unit: a month of small requests adds up
    to the token, where a float would have lost count after a day.
    """

    __slots__ = ("_at", "_level", "_unit", "limit")

    def __init__(self, limit: int, unit_s: int, now: float) -> None:
        self.limit = limit
        self._unit = unit_s * _MICROSECONDS
        self._level = limit * self._unit
        self._at = int(now * _MICROSECONDS)

    def _filled(self, now: float) -> int:
        """The level now, which is kept. Time does not run backwards: an earlier `now` fills nothing."""
        at = int(now * _MICROSECONDS)
        if at > self._at:
            level = self._level + (at - self._at) * self.limit
            full = self.limit * self._unit
            self._level = level if level < full else full
            self._at = at
        return self._level

    def take(self, tokens: int, now: float) -> bool:
        left = self._filled(now) - tokens * self._unit
        if left < 0:
            return False
        self._level = left
        return True

    def overdraw(self, tokens: int, now: float) -> bool:
        level = self._filled(now)
        if level < self._unit:
            return False
        self._level = level - tokens * self._unit
        return True

    def give_back(self, tokens: int, now: float) -> None:
        self._level = min(self._filled(now) + tokens * self._unit, self.limit * self._unit)

    def charge(self, tokens: int, now: float) -> None:
        self._level = self._filled(now) - tokens * self._unit

    def available(self, now: float) -> float:
        return self._filled(now) / self._unit

    def wait_s(self, tokens: int, now: float) -> float:
        if tokens > self.limit:
            return math.inf
        missing = tokens * self._unit - self._filled(now)
        return -(-missing // self.limit) / _MICROSECONDS if missing > 0 else 0.0

    def change(self, limit: int, unit_s: int, now: float) -> None:
        """What was used stays used: of a higher limit there is so much more at once, of a lower one so much
        less, down to nothing. Debt stays what it is; a change by itself makes none."""
        level = self._filled(now)
        left = max(level + (limit - self.limit) * self._unit, min(level, 0))
        unit = unit_s * _MICROSECONDS
        self._level = left * unit // self._unit
        self.limit = limit
        self._unit = unit
