"""How many tokens a member wants on lease, from its recent use and the requests that wait."""

from __future__ import annotations

import math
from typing import Final

HORIZON_S: Final = 2.0
"""A lease covers the expected use of this time,"""
MIN_REQUESTS: Final = 8
"""and at least this many requests."""
SMOOTHING_S: Final = 2.0
"""Averaging time of the use."""
SIZE_WEIGHT: Final = 0.25
"""Weight of the newest request in the mean request size."""
LARGEST_SHARE: Final = 16
"""A lease is at most this fraction of the limit, unless requests wait for more."""
IDLE_S: Final = 5.0
"""A lease without use for so long is given back."""


class Demand:
    """Updated at each claim. `now` is monotonic seconds."""

    __slots__ = ("_learned_at", "_per_s", "_request_tokens", "_used_then", "least", "need", "used_at")

    def __init__(self, now: float) -> None:
        self.used_at = self._learned_at = now
        """When tokens were last used or waited for."""
        self.need = 0
        """Tokens that requests wait for, and that were not claimed yet."""
        self.least = 0
        """Tokens that the smallest of them waits for; 0 if none waits."""
        self._used_then = 0
        self._per_s = 0.0
        self._request_tokens = 0.0

    def wait_for(self, tokens: int, least: int) -> None:
        """Another request waits for `tokens`; `least` would be enough."""
        self.need += tokens
        self.least = min(self.least or least, least)

    def forget_waiting(self) -> None:
        """Their tokens are claimed now, or no claim is needed or possible."""
        self.need = self.least = 0

    def is_idle(self, now: float) -> bool:
        return now - self.used_at >= IDLE_S

    def wanted(self, limit: int, now: float) -> int:
        """Tokens to have on lease."""
        if self.is_idle(now) and not self.need:
            return 0
        tokens = math.ceil(max(self._per_s * HORIZON_S, self._request_tokens * MIN_REQUESTS))
        return max(min(tokens, limit // LARGEST_SHARE), self.need)

    def learn(self, used: int, now: float) -> None:
        """`used`: total since the start."""
        tokens = max(used - self._used_then, 0)
        passed_s = max(now - self._learned_at, 1e-3)
        self._used_then, self._learned_at = used, now
        if tokens or self.need > 0:
            self.used_at = now
        weight = 1.0 - math.exp(-passed_s / SMOOTHING_S)
        self._per_s += weight * (tokens / passed_s - self._per_s)
        if self.least and self._request_tokens:
            self._request_tokens += SIZE_WEIGHT * (self.least - self._request_tokens)
        elif self.least:
            self._request_tokens = float(self.least)
