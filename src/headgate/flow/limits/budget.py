"""The tokens of one direction of one route's limit: what may still be used, and how it comes back.

A token bucket: it holds at most the limit, starts full, and fills up evenly at the limit's rate. It may go
into debt, which the same rate pays off.
"""

from __future__ import annotations

import math
from typing import Protocol


class Budget(Protocol):
    """One direction, input or output, of one route's limit, in tokens. `now` is monotonic seconds.

    What is taken is a reservation. Its owner settles it once: what was not used is given back, what was used
    beyond it is charged.
    """

    @property
    def limit(self) -> int:
        """Tokens in each unit of time, and the most that there may be at once."""

    @property
    def is_parted(self) -> bool:
        """Whether it should count together with others, and cannot now."""

    @property
    def is_cut_off(self) -> bool:
        """Whether it refuses for that alone."""

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

    Nothing is summed up that is not whole: tokens are counted from the moment at which the bucket was last
    full, and what has come in since is computed from that moment. So a month of small requests adds up to the
    token, where fractions, added at each request, would have drifted.
    """

    __slots__ = ("_per_s", "_since", "_tokens", "limit")

    is_parted: bool = False
    is_cut_off: bool = False

    def __init__(self, limit: int, unit_s: int, now: float) -> None:
        self.limit = limit
        self._per_s = limit / unit_s
        self._tokens = float(limit)
        """What there would be now, had nothing come in since,"""
        self._since = now

    # What has come in is worked out in each of these: a call would cost more than the sum.

    def available(self, now: float) -> float:
        tokens = self._tokens + (now - self._since) * self._per_s
        if tokens >= self.limit:
            self._tokens = tokens = float(self.limit)
            self._since = now
        return tokens

    def take(self, tokens: int, now: float) -> bool:
        there = self._tokens + (now - self._since) * self._per_s
        if there >= self.limit:
            self._tokens = there = float(self.limit)
            self._since = now
        if there < tokens:
            return False
        self._tokens -= tokens
        return True

    def overdraw(self, tokens: int, now: float) -> bool:
        there = self._tokens + (now - self._since) * self._per_s
        if there >= self.limit:
            self._tokens = there = float(self.limit)
            self._since = now
        if there < 1:
            return False
        self._tokens -= tokens
        return True

    def give_back(self, tokens: int, now: float) -> None:
        self._tokens += tokens  # what is beyond the limit is cut off at the next look

    def charge(self, tokens: int, now: float) -> None:
        if self._tokens + (now - self._since) * self._per_s >= self.limit:
            self._tokens = float(self.limit)
            self._since = now
        self._tokens -= tokens

    def overflow(self, now: float) -> float:
        """Tokens that came in since anybody looked, and for which there is no room."""
        return max(self._tokens + (now - self._since) * self._per_s - self.limit, 0.0)

    def wait_s(self, tokens: int, now: float) -> float:
        if tokens > self.limit:
            return math.inf
        missing = tokens - self.available(now)
        return missing / self._per_s if missing > 0 else 0.0

    def change(self, limit: int, unit_s: int, now: float) -> None:
        """What was used stays used: of a higher limit there is so much more at once, of a lower one so much
        less, down to nothing. Debt stays what it is; a change by itself makes none."""
        left = self.available(now)
        self._tokens = max(left + limit - self.limit, min(left, 0.0))
        self._since = now
        self._per_s = limit / unit_s
        self.limit = limit
