"""Who has a request that waits, as its queue sees it."""

from __future__ import annotations

from typing import Protocol

from headgate.requests.life import Life
from headgate.requests.pool_state import PoolState
from headgate.requests.refusal import Refusal


class Owner(Protocol):
    """The shell of one request."""

    @property
    def life(self) -> Life: ...

    def admitted(self, pool: PoolState, now: float) -> None:
        """It is the request's turn."""

    def turn_away(self, refusal: Refusal, now: float) -> None:
        """Its turn does not come, or it is taken back from its endpoint."""
