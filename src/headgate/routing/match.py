"""From a request's model, path and headers to the rule that serves it."""

from __future__ import annotations

import msgspec

from headgate.routing.patterns import Headers, Work
from headgate.routing.snapshot import Route, Rule, Snapshot


class Match(msgspec.Struct, frozen=True):
    """The route and rule of a request, and whether its model is the name of an adapter."""

    route: Route
    rule: Rule
    is_adapter: bool

    @property
    def is_final(self) -> bool:
        """Whether no further route is tried: a rule without weights serves nobody, but may reserve a name."""
        return self.rule.has_weight or self.route.is_reserved


def is_named(snapshot: Snapshot, model: str) -> bool:
    """Whether some route has the name as its model or as an adapter."""
    return model in snapshot.models or model in snapshot.adapters


def match(snapshot: Snapshot, model: str, path: str, headers: Headers) -> Match | None:
    """Finds the first rule, in the oldest route for the model first, that the request fits.

    A rule whose weights are all 0 lets the next route try, as Kthena's router does; it is returned only
    if no other route has a rule for the request. A name that some route has as its model is never looked up
    among the adapters, even if no rule fits; and only one that no route has goes to those that take
    unknown names. None means that there is no such rule. Raises TooCostlyError.
    """
    routes = snapshot.models.get(model)
    is_adapter = routes is None
    if routes is None:
        routes = snapshot.adapters.get(model)
        if routes is None:
            is_adapter, routes = False, snapshot.unknown
    work = Work()
    unweighted: Match | None = None
    for route in routes:
        for rule in route.rules:
            if rule.pattern is None or rule.pattern.fits(model, path, headers, work):
                found = Match(route, rule, is_adapter)
                if found.is_final:
                    return found
                unweighted = unweighted or found
                break
    return unweighted
