"""How much prompts of a model differ in length, from readings of few requests each. Pure."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["NONE", "Spread"]

NONE: Final = 1e-9
"""Less than this counts as none: the squares of smaller amounts may be 0."""

_HALF_LIFE_S: Final = 600.0
"""Requests count half after this time: the longest prompts are rare, and tell most."""
_STEP: Final = 0.25
"""What is told changes by steps, so that about equal loads need one sizing; up at once, and down later."""


class Spread:
    """Takes in readings in order."""

    __slots__ = ("_at", "_requests", "_squares", "_tokens", "told")

    def __init__(self) -> None:
        self._at = -math.inf
        self._requests = self._tokens = self._squares = 0.0
        self.told = 0.0
        """Variance as a multiple of the square of the mean."""

    def add(self, spread: float, tokens: float, requests: float, now: float) -> float:
        """Take in the spread and the mean of so many requests; returns what is told."""
        if requests < NONE or tokens < NONE:
            return self.told
        kept = 0.5 ** ((now - self._at) / _HALF_LIFE_S) if now >= self._at else 0.0
        self._at = now
        self._requests = self._requests * kept + requests
        self._tokens = self._tokens * kept + requests * tokens
        self._squares = self._squares * kept + requests * (1 + spread) * tokens**2
        found = max(self._squares * self._requests / self._tokens**2 - 1, 0.0)
        if not self.told - 1.5 * _STEP <= found <= self.told:
            self.told = _STEP * math.ceil(found / _STEP)
        return self.told
