"""Decides about a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headgate import routing, scheduling
from headgate.requests.bodies import forms, large
from headgate.requests.bodies.members import Fields
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.deciding.contents import fill, read_fields
from headgate.requests.deciding.pools import find_pool, forbidden, leads_to, name_there, rewritten
from headgate.requests.decision import Decision
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.client import ClientRequest
    from headgate.requests.deciding.surroundings import Surroundings
    from headgate.requests.pool_state import PoolState
    from headgate.requests.proxied import Proxied


def decide(
    known: Surroundings,
    request: ClientRequest,
    body: large.Body | None = None,
    proxied: Proxied | None = None,
) -> Decision:
    """Find the pool of a request, and build the body for it. A large body was read before."""
    decision = Decision()
    decision.refusal = known.paths.refusal(request.path) or encoded(request)
    if decision.refusal is not None:
        return decision
    content = request.body if body is None else b""
    assert isinstance(content, bytes)
    read = read_fields(request, content, body)
    if isinstance(read, Refusal):
        decision.refusal = read
        return decision
    fields = read[0]
    decision.model = fields.model or ""
    decision.stream = fields.stream is True
    decision.refusal = forbidden(decision, request)
    if decision.refusal is None:
        decision.refusal = find_pool(decision, known, request, proxied)
    asks_for_usage = proxied is None or proxied.asks_for_usage
    if decision.refusal is None:
        fill(decision, known, request, content, read, body, asks_for_usage=asks_for_usage)
    return decision


def decide_in(
    known: Surroundings,
    request: ClientRequest,
    pool: PoolState,
    route: routing.Route,
    body: large.Body | None = None,
) -> Decision:
    """The same for a request whose pool is known, with any path and any content. `route` is used unless a
    route for its model leads to this pool; its fallbacks precede those of that route."""
    decision = Decision()
    decision.pool = pool
    decision.refusal = encoded(request)
    if decision.refusal is not None:
        return decision
    content = request.body if body is None else b""
    assert isinstance(content, bytes)
    known_fields = read_fields(request, content, body)
    read = (Fields(), None) if isinstance(known_fields, Refusal) else known_fields
    fields = read[0]
    decision.model = model = fields.model or ""
    decision.stream = fields.stream is True
    if (refusal := forbidden(decision, request)) is not None:
        decision.refusal = refusal
        return decision
    found = leads_to(known, model, pool.pool.key)
    if found is not None and route.fallback is not None:
        found = msgspec.structs.replace(
            found, route=msgspec.structs.replace(found.route, fallback=route.fallback)
        )
    match = decision.match = found or routing.Match(route, route.rules[0], is_adapter=False)
    target = None if found is None else known.splits.next(match.route.key, match.rule)
    target = decision.target = target or routing.Target(pool.pool.key, 1)
    if pool.pool.rewrites is not None:
        target = rewritten(decision, known, pool.pool.rewrites, target)
    if not model:
        decision.scheduled = scheduling.Request(
            model="", prompt_tokens=len(request.body) // forms.BYTES_PER_TOKEN, header=request.header
        )
        decision.body = content if body is None else Pieces((body.whole,))
        return decision
    decision.upstream_model = name_there(model, match, target, pool)
    fill(decision, known, request, content, read, body, asks_for_usage=True)
    return decision


def encoded(request: ClientRequest) -> Refusal | None:
    """Refuse a body that is declared as encoded. Its content does not matter, as the endpoint would trust the
    declaration."""
    if not request.content_coding:
        return None
    coding = request.content_coding[:64].decode("latin-1").strip()
    return Refusal.bad_request(
        f"the request has content-encoding {coding!r}, but the gateway reads the body to route it, and does "
        "not decode it: send it without content-encoding",
        code="compressed_body",
        status=415,
    )
