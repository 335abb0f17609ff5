"""Why a request is not to go by its route's limit."""

from __future__ import annotations

import math

import msgspec

from headgate.flow.limits.account import Direction


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """What a request waits for."""

    direction: Direction
    limit: int
    """Tokens in each unit of time."""
    unit: str
    available: float
    """Tokens that are there; negative is debt."""
    needed: int
    """Tokens of the prompt as estimated; of the output, one is enough to go."""
    wait_s: float
    """Until the request could go, if no other goes before it; infinite if it never can."""

    @property
    def is_for_ever(self) -> bool:
        """Whether the prompt is larger than the whole limit."""
        return self.wait_s == math.inf
