"""How many tokens a member wants on lease, from its recent rate of use and its request sizes."""

from __future__ import annotations

import math

HORIZON_S = 2.0
"""A lease covers the expected use of this time,"""
MIN_REQUESTS = 8
"""and at least this many requests."""
SMOOTHING_S = 2.0
"""Averaging time of the use."""
SIZE_WEIGHT = 0.25
"""Weight of the newest request in the mean request size."""


class Demand:
    """Updated at each claim. `now` is monotonic seconds."""

    __slots__ = ("_learned_at", "_per_s", "_request_tokens", "_used_then", "used_at")

    def __init__(self, now: float) -> None:
        self.used_at = self._learned_at = now
        """When tokens were last used or waited for."""
        self._used_then = 0
        self._per_s = 0.0
        self._request_tokens = 0.0

    @property
    def tokens(self) -> int:
        return math.ceil(max(self._per_s * HORIZON_S, self._request_tokens * MIN_REQUESTS))

    def learn(self, used: int, is_needed: bool, least: int, now: float) -> None:
        """`used`: total since the start. `least`: tokens that the smallest request waits for, 0 if none
        waits."""
        tokens = max(used - self._used_then, 0)
        passed_s = max(now - self._learned_at, 1e-3)
        self._used_then, self._learned_at = used, now
        if tokens or is_needed:
            self.used_at = now
        weight = 1.0 - math.exp(-passed_s / SMOOTHING_S)
        self._per_s += weight * (tokens / passed_s - self._per_s)
        if least and self._request_tokens:
            self._request_tokens += SIZE_WEIGHT * (least - self._request_tokens)
        elif least:
            self._request_tokens = float(least)
