"""Finds the pool of a request by its model, and the name of the model there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import routing
from headgate.requests.destinations import Destination
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.api import ObjectRef
    from headgate.requests.client import ClientRequest
    from headgate.requests.deciding.surroundings import Surroundings
    from headgate.requests.decision import Decision
    from headgate.requests.pool_state import PoolState
    from headgate.requests.proxied import Proxied


def find_pool(
    decision: Decision, known: Surroundings, request: ClientRequest, proxied: Proxied | None
) -> Refusal | None:
    """The pool, and the name of the model there."""
    model = decision.model
    destination = known.destinations.get(model)
    if destination is not None:
        match, target, pool = destination
        decision.match, decision.target, decision.pool = destination
    else:
        found = _look_for_pool(decision, known, request, is_proxied=proxied is not None)
        if isinstance(found, Refusal):
            return found
        match, target, pool = found
    if pool.pool.rewrites is not None:
        target = rewritten(decision, known, pool.pool.rewrites, target)
    renamed = proxied.model if proxied is not None else ""
    if renamed and (pool.pool.rewrites is None or pool.pool.rewrites.of(model) is None):
        decision.target = target = routing.Target(target.pool, target.weight, renamed)
    decision.upstream_model = name_there(model, match, target, pool)
    return None


def name_there(model: str, match: routing.Match, target: routing.Target, pool: PoolState) -> str:
    """What the endpoints of the pool call the client's model."""
    served = pool.pool.model
    return target.model or (model if served is None or match.is_adapter else served)


def adapter_of(decision: Decision, destination: Destination) -> str:
    """The adapter that the request is for; empty without one."""
    match, target, pool = destination
    if target.model:
        return decision.upstream_model if decision.upstream_model in pool.adapters else ""
    return decision.model if match.is_adapter else ""


def rewritten(
    decision: Decision, known: Surroundings, rewrites: routing.Rewrites, target: routing.Target
) -> routing.Target:
    """The target with the other name of the model, if it has one."""
    route = rewrites.of(decision.model)
    renamed = known.splits.next(route.key, route.rules[0]) if route is not None else None
    if renamed is None:
        return target
    decision.target = renamed
    return renamed


def _look_for_pool(
    decision: Decision, known: Surroundings, request: ClientRequest, *, is_proxied: bool
) -> Destination | Refusal:
    """The destination of this request, for a model whose requests may go to several."""
    model = decision.model
    try:
        match = decision.match = routing.match(known.snapshot, model, request.path, request.header)
    except routing.TooCostlyError as error:
        return Refusal.bad_request(
            f"comparing this request with the routes of the model {model[:256]!r} takes {error}: shorten "
            f"its path and headers, or use fewer or smaller regular expressions in the routes",
            code="routes_too_costly",
        )
    if match is None:
        if not known.is_ready:
            return Refusal.not_ready()
        is_known = routing.is_named(known.snapshot, model)
        if is_known:
            return Refusal.no_rule_matches(model)
        return Refusal.model_not_found(model, is_proxied=is_proxied)
    target = decision.target = known.splits.next(match.route.key, match.rule)
    if target is None:
        return _no_target(match, model)
    pool = decision.pool = known.pools.get(target.pool)
    return Destination(match, target, pool) if pool is not None else _no_pool(match, target)


def leads_to(known: Surroundings, model: str, pool: ObjectRef) -> routing.Match | None:
    """The first rule for a model that leads all requests to this pool, as one of an InferenceModel does."""
    snapshot = known.snapshot
    for routes, is_adapter in ((snapshot.models, False), (snapshot.adapters, True)):
        for route in routes.get(model, ()):
            for rule in route.rules:
                if rule.pattern is None and rule.has_weight and all(t.pool == pool for t in rule.targets):
                    return routing.Match(route, rule, is_adapter)
    return None


def _no_target(match: routing.Match, model: str) -> Refusal:
    if match.route.is_reserved:
        why = f"{match.route.key} reserves the name {model[:256]!r}: every weight of its targets is 0"
        return Refusal.missing(f"there is no valid target model: {why}", code="model_reserved")
    return Refusal.unavailable(
        f"rule {match.rule.name} of {match.route.key} has no target with a weight", code="no_target"
    )


def _no_pool(match: routing.Match, target: routing.Target) -> Refusal:
    """A missing ModelServer is a mistake in the route; an InferencePool may be created later."""
    why = f"{match.route.key} names {target.pool}, which does not exist"
    if target.pool.kind == routing.MODEL_SERVER:
        return Refusal.missing(why, code="model_not_found")
    return Refusal.unavailable(why, code="pool_not_found", dropped="rejected-no-endpoints")


def forbidden(decision: Decision, request: ClientRequest) -> Refusal | None:
    """Why the client's tenant may not use the model."""
    tenant = request.tenant
    if tenant is None or tenant.may_use(decision.model):
        return None
    return Refusal.forbidden_model(tenant.name, decision.model)
