"""What every way to tell whether a pool has room has in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.fleet import EndpointLoad


class Capacity(Protocol):
    """Of one pool; outlives snapshots."""

    def follow(self, loads: Sequence[EndpointLoad]) -> None:
        """Which endpoints there are from now on."""

    def follow_bands(self, priorities: Sequence[int]) -> None:
        """Which priorities requests have, the highest first: lower ones may find less room."""

    def has_room(self, priority: int, now: float) -> bool:
        """Whether one more request of this priority may go."""

    def room_at(self, priority: int, now: float) -> float:
        """When there may be room for it by itself, without anything that is told; infinite if never."""

    def sent(self, now: float) -> None:
        """A request goes."""

    def saturation(self, now: float) -> float:
        """How full the pool is: from 1 on there is no room."""

    def ceiling(self, priority: int) -> float:
        """The saturation from which on there is no room for requests of this priority."""

    def in_flight(self) -> int:
        """Requests that the endpoints have."""

    def is_empty(self) -> bool:
        """Whether there are no endpoints at all."""
