"""Decides about a request that leaves its destination for the next one of its fallbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import routing
from headgate.requests.bodies import large
from headgate.requests.bodies.fields import has_one_model, names_one_model
from headgate.requests.deciding.contents import fill, read_fields
from headgate.requests.deciding.pools import find_pool, forbidden, name_there, rewritten
from headgate.requests.decision import Decision
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.api import ObjectRef
    from headgate.requests.client import ClientRequest
    from headgate.requests.deciding.surroundings import Surroundings


def decide_next(
    known: Surroundings,
    request: ClientRequest,
    before: Decision,
    next: routing.Next,
    body: large.Body | None = None,
) -> Decision:
    """Decide about a request whose present destination is to be left for `next`; the body is that of
    `before`, unless a large one is given. What follows after that is up to the caller."""
    decision = Decision()
    content = (before.body or request.body) if body is None else b""
    assert isinstance(content, bytes)
    if not request.body:  # only one of two bodies was kept
        request.body = content if body is None else body.whole
    read = read_fields(request, content, body)
    if isinstance(read, Refusal):
        decision.refusal = read
        return decision
    decision.model = next.model or before.model
    decision.stream = before.stream
    if next.provider:
        is_clear = names_one_model(content) if body is None else has_one_model(body.members)
        _go_outside(decision, known, request, next, is_json=read[1] is None, is_clear=is_clear)
    else:
        decision.refusal = forbidden(decision, request)
    if decision.refusal is None and not next.provider:
        if next.pool is None:
            # A rule of the Gateway API opens all paths of its own pool, and not those of other models.
            refusal = known.paths.refusal(request.path)
            decision.refusal = refusal or find_pool(decision, known, request, None)
        else:
            decision.refusal = _go_to(decision, known, before, next.pool)
    if decision.refusal is not None:
        return decision
    fill(decision, known, request, content, read, body, asks_for_usage=True)
    decision.usage_unasked = decision.usage_unasked or before.usage_unasked
    if next.provider:
        decision.client_name = b""  # the response keeps the provider's own name of its model
    return decision


def _go_outside(
    decision: Decision,
    known: Surroundings,
    request: ClientRequest,
    next: routing.Next,
    *,
    is_json: bool,
    is_clear: bool,
) -> None:
    """The destination is an external provider. It must not find another model in the body than those that it
    may be asked for."""
    found = known.providers.find(next, request)
    if not is_json:
        decision.refusal = Refusal.unavailable("providers get JSON only", code="provider_not_usable")
    elif isinstance(found, Refusal):
        decision.refusal = found
    elif not is_clear:
        told = "the body has several members `model`, of which providers could take another"
        decision.refusal = Refusal.unavailable(told, code="provider_not_usable")
    else:
        decision.model = found.model
        decision.match, decision.target, decision.pool = found.destination
        decision.upstream_model = found.destination.target.model
        decision.refusal = forbidden(decision, request)


def _go_to(decision: Decision, known: Surroundings, before: Decision, key: ObjectRef) -> Refusal | None:
    """The route stays, and the pool is another."""
    pool, match = known.pools.get(key), before.match
    if pool is None or match is None:
        return Refusal.unavailable(f"there is no {key}", code="pool_not_found")
    decision.match, decision.pool = match, pool
    decision.target = target = routing.Target(key, 1)
    if pool.pool.rewrites is not None:
        target = rewritten(decision, known, pool.pool.rewrites, target)
    decision.upstream_model = name_there(decision.model, match, target, pool)
    return None
