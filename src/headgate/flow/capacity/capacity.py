"""What every way to tell whether a pool has room has in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from headgate.fleet import EndpointState
from headgate.flow.capacity.ceilings import Ceilings
from headgate.routing import PrefillDecode

MIN_SHARE = 1e-3


class Capacity(ABC):
    """Of one pool; outlives snapshots. There is room for a priority while the saturation is below its
    ceiling, and never in a pool without endpoints."""

    is_paced = False
    """Whether it is to be told of each request that goes: otherwise the loads tell."""

    def __init__(self, ceilings: Ceilings | None = None) -> None:
        self.loads: Sequence[EndpointState] = ()
        self.share = 1.0
        """How much of the room this process has, where requests or their rate are counted: with several
        processes, bounds are of all of them together."""
        self.ceilings = ceilings or Ceilings()
        self.judge: Capacity = self
        """Who says whether there is room: itself, or another in its stead, which saves requests a call."""

    def follow(
        self,
        loads: Sequence[EndpointState],
        phases: PrefillDecode | None = None,
        resting: Sequence[EndpointState] = (),
    ) -> None:
        """Which endpoints there are from now on, and what they do where prefill and decode are apart.
        `resting` are others of the pool, which are asked for nothing now: what is known of them is kept."""
        self.loads = loads

    def follow_bands(self, priorities: Sequence[int]) -> None:
        """Which priorities requests have, the highest first: lower ones may find less room."""
        self.ceilings.follow_bands(priorities)

    def take_share(self, share: float) -> None:
        """Goes by another share from now on. With the least, one request at a time has room."""
        self.share = max(share, MIN_SHARE)

    def fullness(self, now: float) -> float | None:
        """What this process has in flight, as a share of all the room; None where that is not counted."""
        return None

    @abstractmethod
    def saturation(self, now: float) -> float:
        """How full the pool is: from 1 on, it is; 1 where there are no endpoints."""

    def has_room(self, priority: int, now: float) -> bool:
        """Whether one more request of this priority may go."""
        if not self.loads:
            return False
        saturation = self.saturation(now)
        return saturation < self.ceilings.of(priority, saturation, now)

    def why_full(self, priority: int, now: float) -> str:
        """Why there is no room for it, in words that follow "the pool has no room: "."""
        if not self.loads:
            return "it has no endpoint"
        saturation, ceiling = self.saturation(now), self.ceiling(priority, now)
        told = f"its saturation is {saturation:.2f}"
        bounded = f", and its ceiling for priority {priority} is {ceiling:.2f}"
        return told if ceiling >= 1.0 else told + bounded

    def room_at(self, priority: int, now: float) -> float:
        """When there may be room for it without anything happening that is told; infinite if never."""
        if not self.loads:
            return math.inf
        return self.ceilings.opens_at(priority, self.saturation(now), now)

    def ceiling(self, priority: int, now: float) -> float:
        """The saturation from which on there is no room for requests of this priority."""
        return self.ceilings.of(priority, self.saturation(now), now)

    def sent(self, now: float) -> None:  # noqa: B027 - the loads tell most of them
        """A request goes, where that is asked for."""

    def is_stale(self, load: EndpointState, now: float) -> bool:
        """Whether it would go by what the engine of an endpoint says, and nothing fresh is known of that."""
        return False

    def stale(self, now: float) -> int:
        """Of how many endpoints that is so."""
        return sum(1 for load in self.loads if self.is_stale(load, now))

    def in_flight(self) -> int:
        """Requests that the endpoints have from this gateway."""
        return sum(load.requests for load in self.loads)

    def is_empty(self) -> bool:
        """Whether there are no endpoints at all."""
        return not self.loads
