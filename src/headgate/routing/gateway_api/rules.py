"""Translates the rules of an HTTPRoute, each by itself: an unsupported one does not stop the others."""

from __future__ import annotations

import msgspec

from headgate import api
from headgate.api import http_routes
from headgate.kubeschema import duration, regex
from headgate.routing import fallbacks
from headgate.routing.gateway_api import backends, faults, filters, matches
from headgate.routing.gateway_api.backends import Backend, InvalidBackend, Known
from headgate.routing.gateway_api.entry_list import EntryRule
from headgate.routing.gateway_api.faults import Fault
from headgate.routing.gateway_api.filters import Filters
from headgate.routing.gateway_api.matches import Match, UnsupportedError
from headgate.routing.snapshot import Fallback, Route, Rule, Target

HTTP_ROUTE = "HTTPRoute"


class Rules(msgspec.Struct, frozen=True):
    """The rules of one route."""

    made: tuple[tuple[int, EntryRule, tuple[Match, ...]], ...]
    """The supported ones: their index, the rule, and its matches."""
    unsupported: tuple[Fault, ...] = ()
    """One for each rule that is not supported, and has no effect."""
    unresolved: tuple[Fault, ...] = ()
    """One for each backend that cannot be reached."""
    ignored: tuple[str, ...] = ()
    """Why annotations have no effect."""


class Compiled(msgspec.Struct, frozen=True):
    """The parts of one rule that depend on nothing but the route."""

    spec: http_routes.RouteRule
    matches: tuple[Match, ...]
    filters: Filters
    backend_filters: tuple[Filters, ...]
    request_timeout_s: float | None
    backend_timeout_s: float | None


def ref(route: api.HttpRoute) -> api.ObjectRef:
    return api.ObjectRef(HTTP_ROUTE, *route.metadata.key)


def compiled(route: api.HttpRoute) -> list[Compiled | Fault]:
    """The rules of a route; a fault for each that is not supported."""
    budget = regex.Budget()
    made: list[Compiled | Fault] = []
    for i, rule in enumerate(route.spec.rules or [http_routes.RouteRule()]):
        try:
            made.append(_compiled(rule, budget))
        except UnsupportedError as error:
            told = f"spec.rules[{i}].{error.field}: {error}"
            made.append(Fault(faults.ACCEPTED, faults.UNSUPPORTED_VALUE, told))
    return made


def _compiled(rule: http_routes.RouteRule, budget: regex.Budget) -> Compiled:
    found = []
    for i, match in enumerate(rule.matches or [http_routes.RouteMatch()]):
        try:
            found.append(matches.compiled(match, budget))
        except UnsupportedError as error:
            raise UnsupportedError(f"matches[{i}].{error.field}", str(error)) from error
    of_rule = filters.compiled(rule.filters)
    of_backends = []
    for i, reference in enumerate(rule.backend_refs):
        try:
            made = filters.compiled(reference.filters)
        except UnsupportedError as error:
            raise UnsupportedError(f"backendRefs[{i}].{error.field}", str(error)) from error
        if made.redirect is not None or made.rewrite is not None or made.mirrors:
            told = "of a backend, only header modifiers are supported: use filters of the rule"
            raise UnsupportedError(f"backendRefs[{i}].filters", told)
        of_backends.append(made)
    timeouts = rule.timeouts or http_routes.Timeouts()
    return Compiled(
        rule,
        tuple(found),
        of_rule,
        tuple(of_backends),
        _seconds(timeouts.request, "timeouts.request"),
        _seconds(timeouts.backend_request, "timeouts.backendRequest"),
    )


def _seconds(text: str | None, field: str) -> float | None:
    if text is None:
        return None
    try:
        return duration.parse(text) or None
    except duration.DurationError as error:
        raise UnsupportedError(field, str(error)) from error


def resolved(route: api.HttpRoute, rules: list[Compiled | Fault], known: Known) -> Rules:
    """The rules with their backends."""
    made, unsupported, unresolved = [], [], []
    ignored: list[str] = []
    for i, rule in enumerate(rules):
        if isinstance(rule, Fault):
            unsupported.append(rule)
            continue
        entry = _resolved(route, i, rule, known, ignored)
        made.append((i, entry, rule.matches))
        unresolved += [
            each.fault for each in (*entry.backends, *entry.mirrored) if isinstance(each, InvalidBackend)
        ]
    return Rules(tuple(made), tuple(unsupported), tuple(unresolved), tuple(dict.fromkeys(ignored)))


def _resolved(
    route: api.HttpRoute, index: int, rule: Compiled, known: Known, ignored: list[str]
) -> EntryRule:
    key = ref(route)
    name = f"{HTTP_ROUTE}/{route.metadata.key}"
    rule_name = rule.spec.name or f"rules[{index}]"
    found = tuple(backends.resolve(route, each, known) for each in rule.spec.backend_refs)
    mirrored = tuple(
        backends.resolve(route, each.request_mirror.backend_ref, known)
        for each in rule.spec.filters
        if each.request_mirror is not None
    )
    targets = tuple(
        Target(_target(backend), each.weight, str(i))
        for i, (each, backend) in enumerate(zip(rule.spec.backend_refs, found, strict=True))
    )
    pools = tuple(
        Target(backend, target.weight)
        for backend, target in zip(found, targets, strict=True)
        if isinstance(backend, api.ObjectRef)
    )
    return EntryRule(
        route=key,
        name=f"{name} {rule_name}",
        split=Rule(rule_name, None, targets),
        as_route=Route(
            key=key,
            name=name,
            model=None,
            adapters=(),
            rules=(Rule(rule_name, None, pools),),
            takes_unknown=True,
            fallback=_fallback(route, pools, ignored),
            uid=route.metadata.uid,
            created=route.metadata.creation_timestamp,
        ),
        backends=found,
        backend_filters=rule.backend_filters,
        filters=rule.filters,
        mirrored=mirrored,
        request_timeout_s=rule.request_timeout_s,
        backend_timeout_s=rule.backend_timeout_s,
    )


def _fallback(route: api.HttpRoute, pools: tuple[Target, ...], ignored: list[str]) -> Fallback | None:
    """What takes over requests to the pools of a rule; pools that it names are of the kind of the first."""

    def report(field: str, reason: str, message: str) -> None:
        ignored.append(f"{field}: {message}")

    if not pools:
        return None
    metadata = route.metadata
    return fallbacks.fallback(metadata.annotations, pools[0].pool.kind, metadata.namespace, report)


def _target(backend: Backend) -> api.ObjectRef:
    """The backend as a target of a split, for which the name does not matter."""
    if isinstance(backend, api.ObjectRef):
        return backend
    return api.ObjectRef("Backend", "", "" if isinstance(backend, InvalidBackend) else str(backend))
