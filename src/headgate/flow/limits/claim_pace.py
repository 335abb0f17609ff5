"""When a member claims tokens, and when a claim would be pointless."""

from __future__ import annotations

import math
from typing import Final

PAUSE_S: Final = 0.05
"""Pause after a claim that got less than it needed or wanted, before the next one for as much. While the
account is almost empty, its refill is fetched in portions that suffice for some requests."""


class ClaimPace:
    """The last claim of a member, and when the next one makes sense."""

    __slots__ = ("claimed_at", "low", "next_at", "refused", "turn")

    def __init__(self, now: float) -> None:
        self.turn = 0
        """Sequence number of the last claim."""
        self.claimed_at = now
        self.low = 0
        """Claim more when less than this is held."""
        self.next_at = -math.inf
        """Before this time, claims for `refused` tokens or more are pointless."""
        self.refused = 0
        """The number of tokens that the account cannot grant before `next_at`."""

    def claim(self, now: float) -> int:
        """The number of the claim that is made now."""
        self.turn += 1
        self.claimed_at = now
        return self.turn

    def learn(self, wanted: int, on_lease: int, level: float, now: float) -> None:
        """Set the pace by a grant: the member wanted and has these tokens on lease, and the account has
        `level` left."""
        self.low = wanted // 2
        self.refused = max(math.floor(level), 0) + 1
        self.next_at = now + PAUSE_S if on_lease < wanted else -math.inf

    def hurry(self) -> None:
        """Allow a claim at once, because the account may have more now."""
        self.next_at = -math.inf
