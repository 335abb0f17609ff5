"""The lease of a member: the tokens that its account has granted, and its use."""

from __future__ import annotations

import math


class Lease:
    """The use is exact whatever happens to the lease: all counts are totals since the start, and a change of
    the lease changes `granted` and `held` alike."""

    __slots__ = ("confirmed", "granted", "held", "until")

    def __init__(self) -> None:
        self.granted = 0
        """Granted since the start, less what was given back."""
        self.held = 0
        """Granted and not used; negative is use beyond the grant."""
        self.confirmed = 0
        """The part of the use that the account has confirmed."""
        self.until = -math.inf
        """When the account takes back the tokens that are not used."""

    @property
    def used(self) -> int:
        """Tokens used since the start, less those given back to this budget."""
        return self.granted - self.held

    @property
    def has_reported_all(self) -> bool:
        return self.used == self.confirmed

    def lacks(self, tokens: int, now: float) -> bool:
        return self.held < tokens or now >= self.until

    def expire(self, now: float) -> None:
        """Once the lease is over, drop the tokens that the account takes back."""
        if now >= self.until:
            self._replace(self.confirmed)

    def shrink(self, held: int) -> None:
        """Give back all tokens beyond `held`."""
        surplus = self.held - held
        if surplus > 0:
            self.held -= surplus
            self.granted -= surplus

    def renew(self, granted: int, confirmed: int, until: float) -> None:
        """Apply a grant: what was used meanwhile stays used."""
        self._replace(granted)
        self.confirmed = confirmed
        self.until = until

    def _replace(self, granted: int) -> None:
        used = self.used
        self.granted = granted
        self.held = granted - used
