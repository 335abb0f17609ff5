"""Detects from first tokens whether an engine serves prompts in order of arrival.

Most do. Others take the shortest first, or the longest cached prefix, or go by priority, or are several
engines behind one address: there, a first token does not prove that earlier prompts are served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt

LATE_S = 0.1
"""First tokens of one step come together, in any order; one that is later than this was overtaken."""
SHARE = 1 / 32
"""Weight of one first token in the share of overtaken ones."""
MANY, FEW = 0.05, 0.01
"""Two overtaken of 32 are significant; after a hundred in order, the engine serves in order again."""


class ServingOrder:
    """The serving order of one engine, and the streams that are served if it is the order of arrival."""

    __slots__ = ("_assumed_served", "is_kept", "overtaken")

    def __init__(self) -> None:
        self.is_kept = True
        self.overtaken = 0.0
        """Recent share of overtaken first tokens. While it is 0, first tokens in order need not be
        reported."""
        self._assumed_served: dict[BookedPrompt, None] = {}
        """Streams assumed served because later ones were, that have no first token yet."""

    def record(self, late_s: float) -> None:
        """Record a first token that came `late_s` after that of a request booked later; 0 if none came before
        it."""
        self.overtaken += SHARE * ((1.0 if late_s > LATE_S else 0.0) - self.overtaken)
        if self.overtaken > MANY:
            self.is_kept = False
        elif self.overtaken < FEW:
            self.is_kept = True

    def assume_served(self, booking: BookedPrompt) -> None:
        """Record a stream as served although its first token is outstanding, because a later one has its
        own."""
        self._assumed_served[booking] = None

    def forget(self, booking: BookedPrompt) -> None:
        """Record that a stream has its first token, or has ended without one."""
        self._assumed_served.pop(booking, None)

    def take_back(self) -> list[BookedPrompt]:
        """Assume no stream served any more. Returns those that were, in order of arrival."""
        bookings = list(self._assumed_served)
        self._assumed_served.clear()
        return bookings
