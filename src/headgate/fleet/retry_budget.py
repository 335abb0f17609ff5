"""How many requests of a pool may be tried again: a bounded share of them, whatever has failed.

While one endpoint fails, its requests are few and all are tried elsewhere. When a pool fails as a whole, each
of its requests would be sent several times, and what is left of the pool would drown: the budget ends that.
"""

from __future__ import annotations

import math

import msgspec


class RetryBudgetPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool saves for retries."""

    share: float = 0.2
    """So much of a retry is saved with each request."""
    floor_per_s: float = 3.0
    """So many retries are saved each second, also without requests: a pool of few needs no bound."""
    window_s: float = 30.0
    """What is saved is lost again with this time constant. Requests last about as long, and all that are in
    flight on an endpoint fail at once if it dies."""


class RetryBudget:
    """The savings of one pool. `requests` is counted up by whoever starts one: it is all that those cost."""

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
        """Spends one retry at `now` (monotonic seconds), or says that there is none. `reserved` is the part
        of what a quiet pool saves that stays for others."""
        self._count(now)
        policy = self.policy
        if self._saved < 1.0 + reserved * policy.floor_per_s * policy.window_s:
            self.denied += 1
            return False
        self._saved -= 1.0
        self.granted += 1
        return True

    def _count(self, now: float) -> None:
        """Adds what was saved since the last count, as if it had come evenly, and takes off what is lost."""
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
