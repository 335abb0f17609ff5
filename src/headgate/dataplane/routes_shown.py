"""The routes, tenants, and what is wrong with objects, for the dashboard: `/debug/routes`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from headgate.api import ObjectRef
from headgate.routing import name_of
from headgate.routing.gateway_api import InvalidBackend

if TYPE_CHECKING:
    from headgate.api import Tenant
    from headgate.routing import Problem, Route, Rule, Snapshot
    from headgate.routing.gateway_api import Backend, EntryRule

MAX_ROUTES: Final = 1000
MAX_TENANTS: Final = 1000
MAX_PROBLEMS: Final = 100
MAX_NAMES: Final = 20
"""Of adapters of a route, rules, targets, and models of a tenant."""


class RuleShown(msgspec.Struct, frozen=True):
    name: str
    is_conditional: bool
    targets: list[tuple[str, float]]
    """Pools and their shares of the requests, 0 to 1."""


class RouteShown(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    model: str | None
    adapters: list[str]
    rules: list[RuleShown]
    takes_unknown: bool
    is_http: bool = False
    """Whether it is an HTTPRoute, which matches hosts, paths and headers instead of models."""


class TenantShown(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    models: list[str]
    """Empty: all."""
    share: int
    limits: list[str]
    """The names of its limits."""
    lowest: int | None
    """Priority."""
    highest: int | None


class ProblemShown(msgspec.Struct, frozen=True):
    """A part of an object that is not in use."""

    object: str
    field: str
    reason: str
    message: str


class RoutesPage(msgspec.Struct, frozen=True, kw_only=True):
    """`/debug/routes`."""

    routes: list[RouteShown]
    routes_total: int
    tenants: list[TenantShown]
    tenants_total: int
    problems: list[ProblemShown]
    problems_total: int
    denied: list[str]
    """Objects that the API server does not let the gateway read."""


def shown(
    snapshot: Snapshot,
    entry_rules: Iterable[EntryRule],
    tenants: Mapping[str, Tenant],
    problems: Sequence[Problem],
    denied: list[str],
) -> RoutesPage:
    """What is in effect, up to the limits above. `entry_rules` are those of HTTPRoutes."""
    routes = {route.name: route for route in snapshot.routes()}
    http_routes: dict[str, list[EntryRule]] = {}
    for each in entry_rules:
        http_routes.setdefault(each.as_route.name, []).append(each)
    names = [*sorted(routes), *sorted(http_routes)]
    return RoutesPage(
        routes=[
            _route(routes[name]) if name in routes else _http_route(name, http_routes[name])
            for name in names[:MAX_ROUTES]
        ],
        routes_total=len(names),
        tenants=[_tenant(name, tenants[name]) for name in sorted(tenants)[:MAX_TENANTS]],
        tenants_total=len(tenants),
        problems=[
            ProblemShown(f"{each.kind} {each.key}", each.field, each.reason, each.message[:512])
            for each in itertools.islice(problems, MAX_PROBLEMS)
        ],
        problems_total=len(problems),
        denied=denied[:MAX_NAMES],
    )


def _route(route: Route) -> RouteShown:
    return RouteShown(
        name=route.name,
        model=route.model,
        adapters=list(route.adapters[:MAX_NAMES]),
        rules=[_rule(rule, [target.pool for target in rule.targets]) for rule in route.rules[:MAX_NAMES]],
        takes_unknown=route.takes_unknown,
    )


def _http_route(name: str, rules: list[EntryRule]) -> RouteShown:
    shown_rules = [_rule(rule.split, rule.backends) for rule in rules[:MAX_NAMES]]
    return RouteShown(
        name=name, model=None, adapters=[], rules=shown_rules, takes_unknown=False, is_http=True
    )


def _rule(rule: Rule, backends: Sequence[Backend]) -> RuleShown:
    total = sum(target.weight for target in rule.targets)
    targets = [
        (_backend(backend), target.weight / total if total else 0.0)
        for target, backend in zip(rule.targets[:MAX_NAMES], backends, strict=False)
    ]
    return RuleShown(rule.name, rule.pattern is not None, targets)


def _backend(backend: Backend) -> str:
    if isinstance(backend, InvalidBackend):
        return f"nowhere ({backend.fault.message[:256]})"
    return name_of(backend) if isinstance(backend, ObjectRef) else str(backend)


def _tenant(name: str, tenant: Tenant) -> TenantShown:
    spec = tenant.spec
    return TenantShown(
        name=name,
        models=spec.models[:MAX_NAMES],
        share=spec.share,
        limits=[f"tenant/{name}/{limit.unit}" for limit in spec.limits],
        lowest=spec.priority.min if spec.priority is not None else None,
        highest=spec.priority.max if spec.priority is not None else None,
    )
