"""Which routes get no requests for a name of theirs, since another takes all of them first."""

from __future__ import annotations

from typing import NamedTuple

from headgate.routing.patterns import RequestPattern, StringPattern
from headgate.routing.snapshot import Route, Rule, Snapshot

_EVERY_PATH = (StringPattern(), StringPattern(prefix=""), StringPattern(prefix="/"))


class Taker(NamedTuple):
    """Who gets the requests for a name, and by which rule; no rule if its model name alone is enough."""

    name: str
    route: Route
    rule: Rule | None
    is_older: bool
    """Whether it goes first by its age."""

    def __str__(self) -> str:
        if self.rule is None:
            return f'"{self.name}" is the modelName of {self.route.key}'
        older = "the older " if self.is_older else ""
        return f'"{self.name}" goes to {older}{self.route.key}, rule {self.rule.name}'


def takers(snapshot: Snapshot, route: Route) -> list[Taker]:
    """One for each name of the route that it gets no requests for."""
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
                break  # what gets here goes to the next route
    return None


def _is_older(other: Route, route: Route) -> bool:
    """Of InferenceModels, a younger one goes first while the pool of the older does not exist."""
    return other.key.kind == route.key.kind and (other.created, other.key) < (route.created, route.key)


def _takes_all(pattern: RequestPattern | None, name: str) -> bool:
    if pattern is None:
        return True
    every_path = pattern.path is None or pattern.path in _EVERY_PATH
    return not pattern.headers and every_path and pattern.model in (None, name)
