"""Explains how a request is matched: what `match` decides, with a reason for each rule that it skips.

Runs on demand, never for a request that is served; it changes nothing.
"""

from __future__ import annotations

import json

import msgspec

from headgate.routing.patterns import (
    CONDITION_STEPS,
    MAX_STEPS,
    Headers,
    RequestPattern,
    StringPattern,
    TooCostlyError,
    Work,
    as_text,
)
from headgate.routing.snapshot import Match, Route, Rule, Snapshot

SHOWN_CHARACTERS = 256
"""Limit for values from clients."""


class RuleReading(msgspec.Struct, frozen=True):
    """A rule evaluated for one request. `unmet` is the first condition that fails; "" if the rule matches."""

    rule: Rule
    unmet: str

    @property
    def fits(self) -> bool:
        return not self.unmet


class RouteReading(msgspec.Struct, frozen=True):
    """A route with all its rules, whether or not they are reached."""

    route: Route
    rules: tuple[RuleReading, ...]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates for a model name, in order."""

    routes: tuple[RouteReading, ...]
    is_adapter: bool
    """Whether the name was found among the adapters."""
    shadowed: tuple[Route, ...] = ()
    """Routes that have the name as an adapter, and are ignored because others have it as their model."""

    @property
    def match(self) -> Match | None:
        """The rule that serves, as `routing.match` finds it."""
        first = [
            Match(reading.route, rule.rule, self.is_adapter)
            for reading in self.routes
            for rule in [rule for rule in reading.rules if rule.fits][:1]
        ]
        return next((match for match in first if match.is_final), first[0] if first else None)


def explain(snapshot: Snapshot, model: str, path: str, headers: Headers) -> Reading:
    """Evaluate every rule of every candidate route; the arguments are those of `match`."""
    by_model = snapshot.models.get(model)
    by_adapter = snapshot.adapters.get(model, ())
    routes = (by_adapter or snapshot.unknown) if by_model is None else by_model
    work = Work()
    return Reading(
        routes=tuple(
            RouteReading(
                route,
                tuple(RuleReading(rule, unmet(rule, model, path, headers, work)) for rule in route.rules),
            )
            for route in routes
        ),
        is_adapter=by_model is None and bool(by_adapter),
        shadowed=by_adapter if by_model is not None else (),
    )


def unmet(rule: Rule, model: str, path: str, headers: Headers, work: Work) -> str:
    """The first condition of a rule that a request does not meet, in words; "" if it meets all."""
    try:
        return _unmet_condition(rule.pattern, model, path, headers, work)
    except TooCostlyError:
        return (
            f"not compared: with the rules before it, that takes more than the {MAX_STEPS} steps that one "
            f"request may cause; use fewer or smaller regular expressions"
        )


def _unmet_condition(
    pattern: RequestPattern | None, model: str, path: str, headers: Headers, work: Work
) -> str:
    if pattern is None:
        work.spend(0)
        return ""
    work.spend(CONDITION_STEPS)
    if pattern.model is not None and model != pattern.model:
        return f"body model: {_quoted(model)} is not {_quoted(pattern.model)}"
    if pattern.path is not None:
        work.spend(pattern.path.cost(path))
        if why := _unmet(pattern.path, path):
            return f"path: {why}"
    for name, condition in pattern.headers:
        value = headers(name)
        work.spend(condition.cost(value))
        if why := _unmet(condition, value):
            missing = " (the request has none)" if not value else ""
            return f"header {name.decode('latin-1')}: {why}{missing}"
    return ""


def _unmet(condition: StringPattern, value: str) -> str:
    if condition.fits(value):
        return ""
    if condition.exact is not None:
        verb = "is not exactly"
    elif condition.prefix is not None:
        verb = "does not begin with"
    elif len(value) > condition.longest:
        verb = f"is longer than the {condition.longest} characters that are searched for a match of"
    else:
        verb = "is not matched by"
    return f"{_quoted(as_text(value))} {verb} {_wanted(condition)}"


def conditions(pattern: RequestPattern | None) -> tuple[str, ...]:
    """The conditions of a rule, in words, in the order of evaluation."""
    if pattern is None:
        return ()
    found = []
    if pattern.model is not None:
        found.append(f"body model is {_quoted(pattern.model)}")
    if pattern.path is not None:
        found.append(f"path {_described(pattern.path)}")
    found += [f"header {name.decode('latin-1')} {_described(value)}" for name, value in pattern.headers]
    return tuple(found)


def _described(condition: StringPattern) -> str:
    if condition.exact is not None:
        return f"is exactly {_wanted(condition)}"
    if condition.prefix is not None:
        return f"begins with {_wanted(condition)}"
    return f"is matched by {_wanted(condition)}" if condition.regex is not None else "is anything"


def _wanted(condition: StringPattern) -> str:
    """The pattern itself, in quotes."""
    if condition.exact is not None:
        return _quoted(condition.exact)
    if condition.prefix is not None:
        return _quoted(condition.prefix)
    return f"the expression {_quoted(str(condition.regex.pattern))}"


def _quoted(text: str) -> str:
    """In quotes, truncated, and safe to print on a terminal."""
    cut = "..." if len(text) > SHOWN_CHARACTERS else ""
    shown = json.dumps(text[:SHOWN_CHARACTERS], ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in shown) + cut
