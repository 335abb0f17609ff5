"""How much a member would like to have on lease, by how fast it used tokens of late and in which sizes."""

from __future__ import annotations

import math

HORIZON_S = 2.0
"""A lease is what is used in this time, by the use of late,"""
MIN_REQUESTS = 8
"""and at least what so many requests use."""
SMOOTHING_S = 2.0
"""Over what time use is averaged."""
SIZE_WEIGHT = 0.25
"""Of the newest request in what is taken for a request's size."""


class Demand:
    """Learns at each claim. `now` is monotonic seconds."""

    __slots__ = ("_learned_at", "_per_s", "_request_tokens", "_used_then", "used_at")

    def __init__(self, now: float) -> None:
        self.used_at = self._learned_at = now
        """When tokens were used last, or waited for."""
        self._used_then = 0
        self._per_s = 0.0
        self._request_tokens = 0.0

    @property
    def tokens(self) -> int:
        return math.ceil(max(self._per_s * HORIZON_S, self._request_tokens * MIN_REQUESTS))

    def learn(self, used: int, is_needed: bool, least: int, now: float) -> None:
        """`used` is what was used since the start; `least` what the smallest request waits for, if any."""
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
