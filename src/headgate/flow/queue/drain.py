"""How fast the queue drains, and so when it is worth while to come again."""

from __future__ import annotations

import math
import random

MEMORY_S = 10.0
MAX_S = 300
"""Nobody is told to stay away for longer: things will be different by then."""


class DrainRate:
    """Work that left the queue for endpoints, in tokens per second, over about the last 10 s.

    A sum that decays with the time constant of `MEMORY_S`, divided by what it would be had there been one
    token per second for as long as it has been measured.
    """

    __slots__ = ("_at", "_began", "_tokens")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._at = self._began = -math.inf

    def begin(self, now: float) -> None:
        """Somebody waits, and nobody did."""
        if now - self._at > MEMORY_S:
            self._tokens, self._began = 0.0, now
        self._at = max(self._at, now)

    def sent(self, work: int, now: float) -> None:
        if now > self._at:
            self._tokens *= math.exp((self._at - now) / MEMORY_S)
            self._at = now
        self._tokens += work

    def per_s(self, now: float) -> float:
        """0 if nothing was sent in the last minute."""
        measured_s = now - self._began
        if not 0.0 < measured_s < math.inf or now - self._at > MEMORY_S * 6:
            return 0.0
        tokens = self._tokens * math.exp((self._at - now) / MEMORY_S)
        return tokens / (MEMORY_S * -math.expm1(-measured_s / MEMORY_S))

    def retry_after_s(self, work: int, now: float, rng: random.Random) -> int:
        """Seconds until so many tokens have gone: from 1 to 300, and 1 if nothing is known. While nothing
        goes, as long again as that has been so.

        Up to a quarter is added by chance, so that those who are refused together do not come together.
        """
        if now - self._began <= 0.0 or self._began == -math.inf:
            return 1
        per_s = self.per_s(now)
        if not per_s:
            return min(max(math.ceil(now - self._began), 1), MAX_S)
        return min(max(math.ceil(work / per_s * (1.0 + rng.random() / 4.0)), 1), MAX_S)
