"""Whether an engine serves prompts in the order of their arrival, as its first tokens show.

Most do. Others take the shortest first, or the one with the longest cached prefix, or go by priority, or are
several behind one address: what was booked before a prompt is not served with it there.
"""

from __future__ import annotations

LATE_S = 0.1
"""First tokens of one step come together, in whatever order; what comes later than this was overtaken."""
SHARE = 1 / 32
"""How far one first token moves the share of those that were overtaken."""
MANY, FEW = 0.05, 0.01
"""Two of 32 that were overtaken are no chance; a hundred in a row that were not have their order again."""


class ServingOrder:
    """Of one engine."""

    __slots__ = ("is_kept", "overtaken")

    def __init__(self) -> None:
        self.is_kept = True
        self.overtaken = 0.0
        """The share of its first tokens of late that were: while it is 0, those in order need not be told."""

    def saw(self, late_s: float) -> None:
        """A first token is here, so long after that of a request which was booked later; 0 if none was
        before it."""
        self.overtaken += SHARE * ((1.0 if late_s > LATE_S else 0.0) - self.overtaken)
        if self.overtaken > MANY:
            self.is_kept = False
        elif self.overtaken < FEW:
            self.is_kept = True
