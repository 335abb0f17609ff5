"""Why a route's limit holds a request back."""

from __future__ import annotations

import math

import msgspec

from headgate.flow.limits.account import Direction


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """What a request waits for."""

    direction: Direction
    limit: int
    """Tokens per unit of time."""
    unit: str
    available: float
    """Available tokens; negative is debt."""
    needed: int
    """Estimated tokens of the prompt; for the output, one is enough."""
    wait_s: float
    """Seconds until the request could be sent if no other is sent before it; infinite if it never can."""

    @property
    def is_for_ever(self) -> bool:
        """Whether the prompt is larger than the whole limit."""
        return self.wait_s == math.inf
