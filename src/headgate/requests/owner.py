"""The owner of a queued request, as its queue sees it."""

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
        """The request may be sent."""

    def turn_away(self, refusal: Refusal, now: float) -> None:
        """The request was dropped from the queue, or evicted from its endpoint."""
