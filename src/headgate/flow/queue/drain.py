"""How fast the queue drains, for Retry-After."""

from __future__ import annotations

import math
import random

MEMORY_S = 10.0
MAX_S = 300
"""The longest `Retry-After` for clients: conditions will have changed by then."""


class DrainRate:
    """Rate at which work leaves the queue for endpoints, in tokens per second, over about the last 10 s.

    A sum that decays with the time constant `MEMORY_S`, divided by the sum that a rate of one token per
    second would have over the measured time.
    """

    __slots__ = ("_at", "_began", "_rng", "_tokens")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._tokens = 0.0
        self._at = self._began = -math.inf

    def begin(self, now: float) -> None:
        """Begin to measure: a request is queued in an empty queue."""
        if now - self._at > MEMORY_S:
            self._tokens, self._began = 0.0, now
        self._at = max(self._at, now)

    def sent(self, work: int, now: float) -> None:
        if now > self._at:
            self._tokens *= math.exp((self._at - now) / MEMORY_S)
            self._at = now
        self._tokens += work

    def per_s(self, now: float) -> float:
        """Work sent per second; 0 if nothing was sent in the last minute."""
        measured_s = now - self._began
        if not 0.0 < measured_s < math.inf or now - self._at > MEMORY_S * 6:
            return 0.0
        tokens = self._tokens * math.exp((self._at - now) / MEMORY_S)
        return tokens / (MEMORY_S * -math.expm1(-measured_s / MEMORY_S))

    def retry_after_s(self, work: int, now: float) -> int:
        """Seconds until `work` tokens have drained: 1 to 300, and 1 if nothing is known. If nothing drains,
        as long again as that has lasted.

        A random addition of up to a quarter spreads the retries of requests that were rejected together.
        """
        if now - self._began <= 0.0 or self._began == -math.inf:
            return 1
        per_s = self.per_s(now)
        if not per_s:
            return min(max(math.ceil(now - self._began), 1), MAX_S)
        return min(max(math.ceil(work / per_s * (1.0 + self._rng.random() / 4.0)), 1), MAX_S)
