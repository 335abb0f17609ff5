"""The names of existing models, routes and pools, as used in metric labels."""

from __future__ import annotations

from collections.abc import Iterable

from headgate import routing
from headgate.requests.queueing.kinds import UNKNOWN
from headgate.telemetry.metrics import OTHER

NONE = "none"
_ALWAYS = frozenset({NONE, UNKNOWN, OTHER})
"""Label values if there is no such object."""


class LiveNames:
    """Follows the snapshots; an update costs as much as the routes and pools that differ."""

    def __init__(self) -> None:
        self.models = set(_ALWAYS)
        self.routes = set(_ALWAYS)
        self.pools = set(_ALWAYS)
        self._more_routes: frozenset[str] = frozenset()
        """Routes that are not part of snapshots."""
        self._outside = _ALWAYS
        """Models of external providers, which are routes and pools of their own, and what is always there."""

    def change(self, snapshot: routing.Snapshot, difference: routing.Difference, *, is_anew: bool) -> bool:
        """Update from a snapshot; return whether a name may be gone. `is_anew`: there is no earlier state."""
        if is_anew:
            self.models, self.pools = set(self._outside), set(self._outside)
            self.routes = set(self._outside | self._more_routes)
        self.models |= difference.names
        self.routes |= (came := {route.name for route in difference.came})
        self.pools |= {routing.name_of(key) for key in difference.pools}
        gone_models = {name for name in difference.names if snapshot.first(name) is None} - self._outside
        gone_routes = {route.name for route in difference.left} - came - self._outside
        gone_pools = {routing.name_of(key) for key in difference.pools if key not in snapshot.pools}
        gone_pools -= self._outside
        self.models -= gone_models
        self.routes -= gone_routes
        self.pools -= gone_pools
        return is_anew or bool(gone_models or gone_routes or gone_pools)

    def use_more_routes(self, names: set[str]) -> None:
        """Routes that exist besides those of snapshots, which have other names."""
        self.routes -= self._more_routes
        self._more_routes = frozenset(names)
        self.routes |= self._more_routes

    def use_providers(self, names: Iterable[str]) -> bool:
        """External providers and their models, besides what snapshots have; return whether a name may be
        gone."""
        before, self._outside = self._outside, _ALWAYS.union(names)
        for known in (self.models, self.routes, self.pools):
            known -= before
            known |= self._outside
        return not before <= self._outside

    def have(self, model: str, route: str, pool: str) -> bool:
        """Whether all three exist."""
        return model in self.models and route in self.routes and pool in self.pools
