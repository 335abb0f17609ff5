"""The token limits of all routes: what is used of them outlives every change of other objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headgate import routing
from headgate.api import ObjectRef
from headgate.flow.limits.route_limit import MakeBudget, RouteLimit, local_budget


class RouteLimits:
    """One RouteLimit for each route that is limited, for as long as it is.

    Two routes never share one, even if they are for the same model. A route that was deleted and made anew is
    another, which its uid tells, and begins full.
    """

    def __init__(self, make: MakeBudget = local_budget) -> None:
        self._make = make
        self.by_route: dict[ObjectRef, RouteLimit] = {}
        """By the route's key; read by whoever serves a request."""

    def use(self, routes: Iterable[routing.Route], now: float) -> None:
        """Goes on by these routes at once; what others had is forgotten."""
        kept: dict[ObjectRef, RouteLimit] = {}
        for route in routes:
            if route.limits is None or route.key in kept:
                continue
            known = self.by_route.get(route.key)
            if known is None or known.uid != route.uid:
                known = RouteLimit(route, self._make, now)
            else:
                known.change(route, now)
            kept[route.key] = known
        self.by_route = kept

    def validate(self) -> None:
        for limit in self.by_route.values():
            limit.validate()

    def statistics(self) -> dict[str, Any]:
        """How many routes are limited, and the tokens that are reserved for requests under way."""
        accounts = [account for limit in self.by_route.values() for account in limit.accounts()]
        return {"routes": len(self.by_route), "reserved": sum(account.reserved for account in accounts)}
