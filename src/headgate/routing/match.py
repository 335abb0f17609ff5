"""Finds the rule for a request by model, path and headers."""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.routing.patterns import Headers, RequestPattern, StringPattern, Work
from headgate.routing.snapshot import Match, Route, Rule, Snapshot


def is_named(snapshot: Snapshot, model: str) -> bool:
    """Whether some route has the name as its model or as an adapter."""
    return model in snapshot.models or model in snapshot.adapters


def match(snapshot: Snapshot, model: str, path: str, headers: Headers) -> Match | None:
    """The first rule that matches the request, in the oldest route for the model first.

    A rule whose weights are all 0 passes on to the next route, as in Kthena's router; it is returned only if
    no other route has a rule for the request. A name that some route has as its model is never looked up
    among the adapters, even if no rule matches; and only a name without any route goes to those that take
    unknown names. None if there is no such rule. Raises TooCostlyError.
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


# Routes that get no requests for one of their names, because another takes all of them first.
_EVERY_PATH: Final = (StringPattern(), StringPattern(prefix=""), StringPattern(prefix="/"))


class Taker(NamedTuple):
    """The route that gets all requests for a name, and by which rule; None if its model name alone is
    enough."""

    name: str
    route: Route
    rule: Rule | None
    is_older: bool
    """Whether it takes precedence by age."""

    def __str__(self) -> str:
        if self.rule is None:
            return f'"{self.name}" is the modelName of {self.route.key}'
        older = "the older " if self.is_older else ""
        return f'"{self.name}" goes to {older}{self.route.key}, rule {self.rule.name}'


def takers(snapshot: Snapshot, route: Route) -> list[Taker]:
    """The routes that take this route's requests: one for each name for which it gets none."""
    names = dict.fromkeys((*((route.model,) if route.model else ()), *route.adapters))
    found = [taker for name in names if (taker := _taker(snapshot, route, name)) is not None]
    if route.takes_unknown and (first := snapshot.unknown[0]).key != route.key:
        found.append(Taker("*", first, first.rules[0], True))
    return found


def _taker(snapshot: Snapshot, route: Route, name: str) -> Taker | None:
    asked = snapshot.models.get(name)
    if asked is None:
        asked = snapshot.adapters.get(name, ())
    elif route.model != name:
        return Taker(name, asked[0], None, False)
    for other in asked:
        if other.key == route.key:
            return None
        for rule in other.rules:
            if _takes_all(rule.pattern, name):
                if rule.has_weight or other.is_reserved:
                    return Taker(name, other, rule, _is_older(other, route))
                break  # requests that reach it go to the next route
    return None


def _is_older(other: Route, route: Route) -> bool:
    """Whether the other route is of the same kind and older. Age is not all: a younger InferenceModel takes
    precedence while the pool of the older one does not exist."""
    return other.key.kind == route.key.kind and (other.created, other.key) < (route.created, route.key)


def _takes_all(pattern: RequestPattern | None, name: str) -> bool:
    if pattern is None:
        return True
    every_path = pattern.path is None or pattern.path in _EVERY_PATH
    return not pattern.headers and every_path and pattern.model in (None, name)
