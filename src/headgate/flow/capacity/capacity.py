"""The common interface of saturation detectors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from headgate.fleet import EndpointState
from headgate.flow.capacity.ceilings import Ceilings
from headgate.routing import PrefillDecode

MIN_SHARE = 1e-3


class Capacity(ABC):
    """Capacity of one pool; outlives snapshots. A priority has capacity while the saturation is below its
    ceiling; a pool without endpoints has none."""

    is_paced = False
    """Whether `sent` must be called for each request; otherwise the endpoint states are enough."""

    def __init__(self, ceilings: Ceilings | None = None) -> None:
        self.loads: Sequence[EndpointState] = ()
        self.share = 1.0
        """The fraction of the pool's capacity that this process may use, where requests or their rate are
        counted: with several processes, limits apply to all of them together."""
        self.ceilings = ceilings or Ceilings()
        self.judge: Capacity = self
        """The object to call `has_room` on: this one, or one that it delegates to, which saves a call per
        request."""

    def follow(
        self,
        loads: Sequence[EndpointState],
        phases: PrefillDecode | None = None,
        resting: Sequence[EndpointState] = (),
    ) -> None:
        """Update the endpoints, and their roles if prefill and decode are disaggregated. `resting` are other
        endpoints of the pool that take no requests now: what is known of them is kept."""
        self.loads = loads

    def follow_bands(self, priorities: Sequence[int]) -> None:
        """Update the priorities of the bands, highest first: lower ones may have less capacity."""
        self.ceilings.follow_bands(priorities)

    def take_share(self, share: float) -> None:
        """Update this process's fraction. Even the smallest leaves capacity for one request at a time."""
        self.share = max(share, MIN_SHARE)

    def fullness(self, now: float) -> float | None:
        """Requests in flight of this process, as a fraction of the whole capacity; None if that is not
        counted."""
        return None

    @abstractmethod
    def saturation(self, now: float) -> float:
        """Saturation of the pool: full from 1 on; 1 without endpoints."""

    def has_room(self, priority: int, now: float) -> bool:
        """Whether one more request of this priority may be sent."""
        if not self.loads:
            return False
        saturation = self.saturation(now)
        return saturation < self.ceilings.of(priority, saturation, now)

    def why_full(self, priority: int, now: float) -> str:
        """Why it has no capacity, in words that follow "the pool has no capacity: "."""
        if not self.loads:
            return "it has no endpoint"
        saturation, ceiling = self.saturation(now), self.ceiling(priority, now)
        told = f"its saturation is {saturation:.2f}"
        bounded = f", and its ceiling for priority {priority} is {ceiling:.2f}"
        return told if ceiling >= 1.0 else told + bounded

    def room_at(self, priority: int, now: float) -> float:
        """When it may have capacity again without any event; infinite if never."""
        if not self.loads:
            return math.inf
        return self.ceilings.opens_at(priority, self.saturation(now), now)

    def ceiling(self, priority: int, now: float) -> float:
        """The saturation from which on this priority has no capacity."""
        return self.ceilings.of(priority, self.saturation(now), now)

    def sent(self, now: float) -> None:  # noqa: B027 - most detectors read the endpoint states instead
        """Record a sent request, if `is_paced`."""

    def is_stale(self, load: EndpointState, now: float) -> bool:
        """Whether the detector needs a reading of this endpoint's engine and has no recent one."""
        return False

    def stale(self, now: float) -> int:
        """Number of endpoints that are stale."""
        return sum(1 for load in self.loads if self.is_stale(load, now))

    def in_flight(self) -> int:
        """Requests in flight on the endpoints, with those that other gateways report."""
        return sum(load.requests for load in self.loads)

    def is_empty(self) -> bool:
        """Whether there are no endpoints at all."""
        return not self.loads
