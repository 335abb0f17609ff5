"""Token budget of one direction of a route's limit.

A token bucket: it holds at most the limit, starts full, and refills at a constant rate. It may go into debt,
which the refill pays off.
"""

from __future__ import annotations

import math
from typing import Protocol


class Budget(Protocol):
    """One direction, input or output, of one route's limit, in tokens. `now` is monotonic seconds.

    What is taken is a reservation. Its owner settles it once: unused tokens are given back, tokens beyond it
    are charged.
    """

    @property
    def limit(self) -> int:
        """Tokens per unit of time, which is also the capacity of the bucket."""

    @property
    def is_parted(self) -> bool:
        """Whether the budget is shared but cannot reach its account now."""

    @property
    def is_cut_off(self) -> bool:
        """Whether it rejects only because of that."""

    def take(self, tokens: int, now: float) -> bool:
        """Reserve tokens; False, and no change, if there are fewer."""

    def overdraw(self, tokens: int, now: float) -> bool:
        """Reserve tokens, going into debt if there are fewer; False, and no change, if there is not even
        one."""

    def give_back(self, tokens: int, now: float) -> None:
        """Return reserved tokens that were not used; the bucket never exceeds the limit."""

    def charge(self, tokens: int, now: float) -> None:
        """Take tokens that were used already, going into debt if there are fewer."""

    def available(self, now: float) -> float:
        """Available tokens; negative is debt."""

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until `tokens` are available, if nothing else is taken; infinite if they never are."""

    def change(self, limit: int, unit_s: int, now: float) -> None:
        """Apply another limit at once; see LocalBudget for the effect on what was used."""


class LocalBudget:
    """A budget that one process keeps for itself.

    It sums up whole tokens only: it counts them from the moment when the bucket was last full, and computes
    the refill from that moment. So a month of small requests is exact to the token, where fractions added per
    request would drift.
    """

    __slots__ = ("_per_s", "_since", "_tokens", "limit")

    is_parted: bool = False
    is_cut_off: bool = False

    def __init__(self, limit: int, unit_s: int, now: float) -> None:
        self.limit = limit
        self._per_s = limit / unit_s
        self._tokens = float(limit)
        """The level now, without any refill since `_since`."""
        self._since = now

    # Each method computes the refill itself: a call would cost more than the sum.

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
        self._tokens += tokens  # the next call cuts off what exceeds the limit

    def charge(self, tokens: int, now: float) -> None:
        if self._tokens + (now - self._since) * self._per_s >= self.limit:
            self._tokens = float(self.limit)
            self._since = now
        self._tokens -= tokens

    def overflow(self, now: float) -> float:
        """Tokens that were added since the last call and exceed the limit."""
        return max(self._tokens + (now - self._since) * self._per_s - self.limit, 0.0)

    def wait_s(self, tokens: int, now: float) -> float:
        if tokens > self.limit:
            return math.inf
        missing = tokens - self.available(now)
        return missing / self._per_s if missing > 0 else 0.0

    def change(self, limit: int, unit_s: int, now: float) -> None:
        """What was used stays used: a higher limit adds the difference at once, a lower one subtracts it,
        down to 0. Debt stays; a change alone never creates debt."""
        left = self.available(now)
        self._tokens = max(left + limit - self.limit, min(left, 0.0))
        self._since = now
        self._per_s = limit / unit_s
        self.limit = limit
