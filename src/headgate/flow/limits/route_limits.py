"""The token limits of all routes; use counts survive changes of other objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headgate import routing
from headgate.api import ObjectRef
from headgate.flow.limits.route_limit import PROVIDER, TENANT, MakeBudget, RouteLimit, local_budget


class RouteLimits:
    """One RouteLimit for each limited route.

    Two routes never share one, even for the same model. A route that was deleted and recreated has another
    uid, and starts full.
    """

    def __init__(self, make: MakeBudget = local_budget) -> None:
        self._make = make
        self.by_route: dict[ObjectRef, RouteLimit] = {}
        """By the route's key; read for each request. Limits of tenants are those of routes without rules."""

    def use(self, routes: Iterable[routing.Route], now: float) -> None:
        """Keep exactly these routes, besides those of tenants and providers; the limits of others are
        dropped."""
        limited = {route.key: route for route in routes if route.limits is not None}
        gone = {key for key in self.by_route if key not in limited and key.kind not in (TENANT, PROVIDER)}
        self.change(gone, limited.values(), now)

    def use_tenants(self, routes: Iterable[routing.Route], now: float) -> bool:
        """The same for the limits of tenants. Returns whether a budget may be unused now."""
        return self._use_kind(TENANT, routes, now)

    def use_providers(self, routes: Iterable[routing.Route], now: float) -> bool:
        """The same for those of external providers."""
        return self._use_kind(PROVIDER, routes, now)

    def _use_kind(self, kind: str, routes: Iterable[routing.Route], now: float) -> bool:
        limited = {route.key: route for route in routes}
        gone = {key for key in self.by_route if key not in limited and key.kind == kind}
        return self.change(gone, limited.values(), now)

    def change(self, gone: Iterable[ObjectRef], routes: Iterable[routing.Route], now: float) -> bool:
        """Apply new or changed routes, and drop those that are gone.

        Returns whether a budget may be unused now.
        """
        is_less = False
        for key in gone:
            is_less |= self.by_route.pop(key, None) is not None
        for route in routes:
            known = self.by_route.get(route.key)
            if route.limits is None:
                is_less |= self.by_route.pop(route.key, None) is not None
            elif known is None or known.uid != route.uid:
                is_less |= known is not None
                self.by_route[route.key] = RouteLimit(route, self._make, now)
            else:
                before = [account.budget for account in known.accounts()]
                known.change(route, now)
                is_less |= before != [account.budget for account in known.accounts()]
        return is_less

    def validate(self) -> None:
        for limit in self.by_route.values():
            limit.validate()

    def statistics(self) -> dict[str, Any]:
        """The number of limited routes, and the tokens reserved for requests in flight."""
        accounts = [account for limit in self.by_route.values() for account in limit.accounts()]
        return {"routes": len(self.by_route), "reserved": sum(account.reserved for account in accounts)}
