"""Retry budget of a pool: a bounded share of its requests, whatever has failed.

While one endpoint fails, its requests are few, and all are retried elsewhere. When a whole pool fails,
retrying each request several times would overload what is left of it: the budget prevents that.
"""

from __future__ import annotations

import math

import msgspec


class RetryBudgetPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a pool accumulates its retry budget."""

    share: float = 0.2
    """Retries added per request."""
    floor_per_s: float = 3.0
    """Retries added per second, even without requests: a small pool needs no limit."""
    window_s: float = 30.0
    """Time constant of the budget's decay. Requests last about as long, and all that are in flight on an
    endpoint fail at once if it dies."""


class RetryBudget:
    """The budget of one pool. Its callers increment `requests` for each request, which costs no more than
    that."""

    __slots__ = ("_counted", "_counted_at", "_saved", "denied", "granted", "policy", "requests")

    def __init__(self, now: float, policy: RetryBudgetPolicy | None = None) -> None:
        self.policy = policy or RetryBudgetPolicy()
        self.requests = 0
        self.granted = 0
        self.denied = 0
        self._counted = 0
        self._counted_at = now
        self._saved = self.policy.floor_per_s * self.policy.window_s

    def take(self, now: float, reserved: float = 0.0) -> bool:
        """Take one retry at `now` (monotonic seconds); False if there is none. `reserved`: share of an idle
        pool's budget to leave for others."""
        self._count(now)
        policy = self.policy
        if self._saved < 1.0 + reserved * policy.floor_per_s * policy.window_s:
            self.denied += 1
            return False
        self._saved -= 1.0
        self.granted += 1
        return True

    def _count(self, now: float) -> None:
        """Add what accumulated since the last count, assuming an even rate, and apply the decay."""
        policy = self.policy
        came = policy.share * (self.requests - self._counted)
        passed = max(0.0, now - self._counted_at) / policy.window_s
        self._counted, self._counted_at = self.requests, now
        if passed == 0.0:
            self._saved += came
            return
        kept = math.exp(-passed)
        came += policy.floor_per_s * passed * policy.window_s
        self._saved = self._saved * kept + came * (1.0 - kept) / passed

    def statistics(self) -> dict[str, float]:
        return {"saved": round(self._saved, 3), "granted": self.granted, "denied": self.denied}
