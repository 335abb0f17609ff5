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


def is_named(snapshot: Snapshot, model: str) -> bool:
    """Whether some route has the name as its model or as an adapter."""
    return model in snapshot.models or model in snapshot.adapters


def match(snapshot: Snapshot, model: str, path: str, headers: Headers) -> Match | None:
    """Finds the first rule, in the oldest route for the model first, that the request fits.

    A name that some route has as its model is never looked up among the adapters, even if no rule
    fits (R13); and only one that no route has goes to those that take unknown names. None means that there
    is no such rule. Raises TooCostlyError.
    """
    routes = snapshot.models.get(model)
    is_adapter = routes is None
    if routes is None:
        routes = snapshot.adapters.get(model)
        if routes is None:
            is_adapter, routes = False, snapshot.unknown
    work = Work()
    for route in routes:
        for rule in route.rules:
            if rule.pattern is None or rule.pattern.fits(model, path, headers, work):
                return Match(route, rule, is_adapter)
    return None
