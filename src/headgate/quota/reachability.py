"""Whether remote accounts respond in time."""

from __future__ import annotations

import math
import time

from headgate.quota.patience import Patience

IN_TIME_AGAIN = 4
"""Unreachable accounts are used again after one early response, or after this many consecutive ones in
time."""


class Reachability:
    """Accounts are unreachable from the first failure or late response until responses arrive in time
    again."""

    def __init__(self) -> None:
        self.trouble = ""
        """Why the accounts are unreachable; empty if they are not."""
        self.has_responded = False
        """Whether there was ever a response."""
        self.lost_at_unix = 0.0
        """When they became unreachable, in seconds since 1970."""
        self._lost_at = math.inf
        """The same by the monotonic clock."""
        self._in_time = 0
        """Recent consecutive responses in time."""

    def lose(self, why: str, now: float) -> None:
        if not self.trouble:
            self.lost_at_unix, self._lost_at = time.time(), now
        self.trouble = why
        self._in_time = 0

    def respond(self, took_s: float, patience: Patience) -> bool:
        """Record the time of a response; whether unreachable accounts can be used again."""
        self.has_responded = True
        self._in_time = self._in_time + 1 if patience.is_in_time(took_s) else 0
        return patience.is_early(took_s) or self._in_time >= IN_TIME_AGAIN

    def regain(self) -> float:
        """Returns for how many seconds the accounts were unreachable."""
        self.trouble = ""
        return time.time() - self.lost_at_unix

    def is_lost_for(self, seconds: float, now: float) -> bool:
        return now - self._lost_at >= seconds
