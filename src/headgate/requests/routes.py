"""The routes of the snapshot in use, and what of them outlasts a snapshot: splits and token limits."""

from __future__ import annotations

from collections.abc import Mapping

from headgate import routing
from headgate.api import ObjectRef
from headgate.flow.limits import RouteLimits
from headgate.requests.destinations import Destination, destinations
from headgate.requests.destinations import changed as changed_destinations
from headgate.requests.pool_state import PoolState
from headgate.requests.providers import Providers


class Routes:
    """Owned by a DataPlane."""

    def __init__(self, limits: RouteLimits, phase: float) -> None:
        """`phase` is the part of their rounds after which the weighted splits begin."""
        self.snapshot = routing.EMPTY
        self._is_torn = True
        """Whether what follows from the snapshot has to be made anew: nothing is, or taking one up failed."""
        self.destinations: dict[str, Destination] = {}
        self.splits = routing.Splits(phase)
        self.limits = limits
        self.providers = Providers()
        """Where requests may go outside of the fleet."""

    def begin(self) -> bool:
        """Begin to take up a new snapshot; returns whether nothing of the previous one may be kept."""
        is_anew, self._is_torn = self._is_torn, True
        return is_anew

    def use(self, snapshot: routing.Snapshot) -> None:
        """All that follows from the new snapshot is done: it is in use."""
        self.snapshot = snapshot
        self._is_torn = False

    def take(
        self,
        snapshot: routing.Snapshot,
        difference: routing.Difference,
        pools: Mapping[ObjectRef, PoolState],
        now: float,
        *,
        is_anew: bool,
    ) -> bool:
        """Apply the routes of a new snapshot, which is in use only after `use`. `is_anew`: nothing
        of the previous one is kept. Returns whether limits of routes may be gone."""
        if not is_anew and pools.keys() == self.snapshot.pools.keys():
            self.destinations = changed_destinations(self.destinations, snapshot, pools, difference)
        else:
            self.destinations = destinations(snapshot, pools)
        if is_anew:
            self.limits.use(snapshot.routes(), now)
            limits_left = True
        else:
            gone = {route.key for route in difference.left} - {route.key for route in difference.came}
            limits_left = self.limits.change(gone, difference.came, now)
        left, came = self._rewrites(self.snapshot, difference), self._rewrites(snapshot, difference)
        self.splits.change((*difference.left, *left), (*difference.came, *came))
        return limits_left

    @staticmethod
    def _rewrites(snapshot: routing.Snapshot, difference: routing.Difference) -> list[routing.Route]:
        """The rewrites of the pools that differ."""
        pools = [snapshot.pools.get(key) for key in difference.pools]
        found = [pool.rewrites for pool in pools if pool is not None and pool.rewrites is not None]
        return [route for rewrites in found for route in rewrites.routes()]
