"""Explains how a request would be handled, and why; sends and changes nothing.

Runs the same `decide` and the same pick that serve requests, but only peeks at weighted splits. The data path
is not involved.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from headgate import fleet, routing, scheduling
from headgate.api import ObjectRef
from headgate.dataplane.explaining import limits_shown
from headgate.dataplane.explaining.explanation import (
    Answer,
    EndpointShown,
    Explanation,
    FallbackShown,
    LimitShown,
    RouteShown,
    RuleShown,
    TargetShown,
)
from headgate.dataplane.explaining.pick import Picked, asked_of, pick
from headgate.dataplane.explaining.view import Supposing, View
from headgate.fleet.ejection import AVOID_AFTER_FAILURE_S
from headgate.requests import fallbacks, health
from headgate.requests.bodies import large
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.client import ClientRequest, Header
from headgate.requests.decision import Decision
from headgate.requests.no_endpoint import no_endpoint
from headgate.requests.pool_state import PoolState
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.fleet import EndpointState

DEFAULT_PATH = "/v1/chat/completions"
SHOWN_BODY_BYTES = 4096


class Forms(Protocol):
    """How a shell reads requests, and how it rejects them."""

    @property
    def falls_back(self) -> bool:
        """Whether other models and pools take requests over. A proxy that only asks for a pick has none."""
        ...

    def request(self, path: str, headers: list[Header], body: bytes, now: float) -> ClientRequest:
        """The POST request."""
        ...

    def decide(self, known: Supposing, request: ClientRequest, read: large.Body | None) -> Decision: ...
    def answer(self, refusal: Refusal, path: str) -> Answer:
        """The response that a client would get, split into its parts."""
        ...


def explain(
    view: View,
    forms: Forms,
    path: str,
    headers: list[Header],
    body: bytes,
    read: large.Body | None = None,
) -> Explanation:
    """Explain a POST request to a path; header names are lower case. The caller may have `read` a large body
    before, if this must not take long."""
    if read is None and len(body) > large.LARGE_BYTES:
        read = large.read(headers, body, path)
    return _Explainer(view, forms, path, headers, body, read).explanation()


class _Explainer:
    def __init__(
        self,
        view: View,
        forms: Forms,
        path: str,
        headers: list[Header],
        body: bytes,
        read: large.Body | None,
    ) -> None:
        self._forms = forms
        self._read = read
        self._view = view
        self._path = path
        self._headers = headers
        self._body = body

    def explanation(self) -> Explanation:
        view = self._view
        decision = self._decide(None)
        request = self._request()
        reading = routing.explain(view.snapshot, decision.model, request.path, request.header)
        match = decision.match
        targets = self._targets(match) if match is not None else ()
        names = view.snapshot.names()
        return Explanation(
            model=decision.model,
            path=request.path,
            stream=decision.stream,
            is_live=view.is_live,
            routes=tuple(_routes(reading, self._limits)),
            shadowed=tuple(route.name for route in reading.shadowed),
            similar=() if reading.routes else tuple(difflib.get_close_matches(decision.model[:256], names)),
            targets=targets,
            answer=None if any(target.weight for target in targets) else self._answer(decision.refusal),
            problems=self._problems(reading),
            fallbacks=tuple(self._fallbacks(decision, request)),
        )

    def _fallbacks(self, decision: Decision, request: ClientRequest) -> Iterator[FallbackShown]:
        """Where the request may go instead of its target."""
        fallback, known = decision.fallback if self._forms.falls_back else None, self._view
        for each in fallback.next if fallback is not None else ():
            pool, why = each.pool, ""
            if each.provider:
                pool, why = self._provider(each, request)
            elif pool is None:
                match = routing.match(known.snapshot, each.model, request.path, request.header)
                target = known.turns.peek(match.route.key, match.rule) if match is not None else None
                pool = target.pool if target is not None else None
            if each.provider:
                pass
            elif request.tenant is not None and not request.tenant.may_use(each.model or decision.model):
                why = f"the tenant {request.tenant.name} may not use it"
            elif pool is None:
                why = "no route serves it"
            elif pool not in known.snapshot.pools:
                why = f"there is no {pool}"
            elif decision.pool is not None and pool == decision.pool.pool.key and not each.model:
                why = "it is the pool of the request"
            reasons = sorted(fallback.reasons) + sorted(map(str, fallback.statuses)) if fallback else []
            yield FallbackShown(
                name=each.name,
                reasons=tuple(reasons),
                pool=routing.name_of(pool) if pool is not None else "",
                why_not=why,
            )

    def _provider(self, next: routing.Next, request: ClientRequest) -> tuple[ObjectRef, str]:
        """What is asked for an external provider, and why it would be passed over."""
        key, found = (
            ObjectRef(routing.PROVIDER, "", next.provider),
            self._view.providers.find(next, request),
        )
        if not self._view.is_live:
            return key, "only a running gateway knows whether it has this provider"
        if isinstance(found, Refusal):
            return key, found.message
        if request.tenant is not None and not request.tenant.may_use(found.model):
            return key, f"the tenant {request.tenant.name} may not use {found.model}"
        return key, ""

    def _limits(self, route: routing.Route) -> tuple[LimitShown, ...]:
        limit = self._view.token_limits.by_route.get(route.key)
        return limits_shown.explained(limit, self._view.now, is_live=self._view.is_live)

    def _request(self) -> ClientRequest:
        return self._forms.request(self._path, list(self._headers), self._body, self._view.now)

    def _decide(self, given: routing.Target | None) -> Decision:
        view = self._view
        return self._forms.decide(
            Supposing(
                view.snapshot,
                view.pools,
                view.turns,
                view.sizes,
                view.is_ready,
                view.paths,
                view.believes_objectives,
                given,
            ),
            self._request(),
            self._read,
        )

    def _targets(self, match: routing.Match) -> tuple[TargetShown, ...]:
        targets = match.rule.targets
        turn = self._view.turns.peek(match.route.key, match.rule)
        next_place = targets.index(turn) if turn is not None else -1
        is_known = self._view.is_live or sum(target.weight > 0 for target in targets) == 1
        total = sum(target.weight for target in targets)
        return tuple(
            self._target(
                target,
                share=target.weight / total if total else 0.0,
                is_next=place == next_place if is_known else None,
            )
            for place, target in enumerate(targets)
        )

    def _target(self, target: routing.Target, *, share: float, is_next: bool | None) -> TargetShown:
        decision = self._decide(target)
        pool, refusal = decision.pool, decision.refusal
        endpoints: tuple[EndpointShown, ...] | None = None
        changes = _changes(decision)
        if refusal is None and decision.match is not None:
            limit = self._view.token_limits.by_route.get(decision.match.route.key)
            refusal = limits_shown.refusal(limit, decision, self._view.now)
        if pool is not None and self._view.knows_endpoints:
            picked = self._pick(pool, decision)
            endpoints = tuple(_Endpoints(pool, picked, self._view).shown())
            if picked.choice is None and refusal is None:
                refusal = self._no_endpoint(pool, decision.scheduled)
            changes += picked.phases_in_words()
        return TargetShown(
            model_server=routing.name_of(target.pool),
            pool=str(target.pool),
            weight=target.weight,
            share=round(share, 4),
            is_next=is_next,
            upstream_model=decision.upstream_model if pool is not None else None,
            names_model=bool(target.model),
            priority=decision.scheduled.priority,
            changes=tuple(changes),
            body=_text(decision.body) if decision.refusal is None else None,
            prompt_tokens_estimate=decision.scheduled.prompt_tokens,
            endpoints=endpoints,
            answer=self._answer(refusal),
            waits=_waits(pool, decision, self._view.now) if decision.refusal is None else "",
        )

    def _pick(self, pool: PoolState, decision: Decision) -> Picked:
        view = self._view
        path = self._request().path
        return pick(pool, decision, path, view.now, view.max_requests, view.remote_prefill_tokens)

    def _no_endpoint(self, pool: PoolState, request: scheduling.Request) -> Refusal:
        asked = asked_of(pool, self._view.now, self._view.max_requests)
        refused = pool.policy.refusal(request, asked, self._view.now) if asked else None
        return no_endpoint(pool, self._view.max_requests, refused)

    def _answer(self, refusal: Refusal | None) -> Answer | None:
        if refusal is None:
            return None
        reason = fallbacks.REASONS.get(refusal.code, "")
        return msgspec.structs.replace(self._forms.answer(refusal, self._path), reason=reason)

    def _problems(self, reading: routing.Reading) -> tuple[str, ...]:
        routes = {found.route.key for found in reading.routes}
        pools = {
            target.pool for found in reading.routes for rule in found.route.rules for target in rule.targets
        }
        return tuple(
            f"{problem.kind} {problem.key}: {problem.field}: {problem.message}"
            for problem in self._view.snapshot.problems
            if ObjectRef(problem.kind, *problem.key) in routes | pools
        )


def _routes(
    reading: routing.Reading, limits: Callable[[routing.Route], tuple[LimitShown, ...]]
) -> list[RouteShown]:
    match, shown, serving = reading.match, [], ""
    for place, found in enumerate(reading.routes):
        serves = match is not None and found.route is match.route and not serving
        if serves:
            why = "the oldest for this name" if place == 0 else "the oldest with a rule that fits"
            if found.route.takes_unknown:
                why = "serves all names without a route of their own"
        elif serving:
            why = f"not used, as {serving} serves"
        elif any(rule.fits for rule in found.rules):
            why = "the weights of the rule that fits are all 0: the next route is tried"
        else:
            why = "no rule fits"
        shown.append(
            RouteShown(
                name=found.route.name,
                object=str(found.route.key),
                created=found.route.created,
                serves=serves,
                why=why,
                rules=tuple(_rules(found, serves)),
                limits=limits(found.route),
            )
        )
        if serves:
            serving = found.route.name
    return shown


def _rules(found: routing.RouteReading, route_serves: bool) -> list[RuleShown]:
    shown = []
    is_open = route_serves
    for reading in found.rules:
        serves = is_open and reading.fits
        if serves:
            why = "fits" if reading.rule.pattern is not None else "fits every request"
        elif reading.fits:
            why = "would fit, but an earlier rule serves" if route_serves else "would fit"
        else:
            why = reading.unmet
        conditions = routing.conditions(reading.rule.pattern)
        shown.append(RuleShown(name=reading.rule.name, conditions=conditions, serves=serves, why=why))
        is_open = is_open and not serves
    return shown


class _Endpoints:
    """The endpoints of a pool, with the reason why each is picked or not."""

    def __init__(self, pool: PoolState, picked: Picked, view: View) -> None:
        self._pool = pool
        self._picked = picked.choice.load if picked.choice is not None else None
        self._reasons = picked.reasons
        self._view = view

    def shown(self) -> list[EndpointShown]:
        out = fleet.ejected(self._pool.loads, self._view.now)
        return [self._one(load, load in out) for load in self._pool.loads]

    def _one(self, load: EndpointState, is_ejected: bool) -> EndpointShown:
        is_full = load.requests >= self._view.max_requests
        state = "full" if is_full else health.state(load, is_ejected, self._view.now)
        return EndpointShown(
            name=load.endpoint.name,
            address=load.endpoint.address,
            state=state,
            requests=load.requests,
            work_tokens=load.work_tokens,
            picked=load is self._picked,
            why=self._why(load, state),
        )

    def _why(self, load: EndpointState, state: str) -> str:
        now = self._view.now
        if load is self._picked and state != "healthy":
            return "no other is better"
        if state == "full":
            return f"has {load.requests} requests, the limit per gateway"
        if state == "ejected":
            left_s = load.ejection.until - now
            return f"gets no requests for another {left_s:.1f} s, after {health.why(load)}"
        if state == "resting":
            left_s = load.resting_until - now
            return f"asked for no requests for another {left_s:.1f} s (Retry-After)"
        if state == "avoided" and load.avoided_until > load.failed_at + AVOID_AFTER_FAILURE_S:
            return "rejected a request that is being retried elsewhere: used only if there is no other"
        if state == "avoided":
            return f"failed {now - load.failed_at:.1f} s ago: used only if there is no other"
        if state == "returning":
            return f"was ejected: gets {load.share(now):.0%} of its share"
        return self._reasons.get(load, "not considered")


def _changes(decision: Decision) -> list[str]:
    changes = []
    if decision.client_name:
        asked, served = (
            json.dumps(name, ensure_ascii=False) for name in (decision.model, decision.upstream_model)
        )
        changes.append(f"model {asked} becomes {served}, and {asked} again in the response")
    if decision.usage_unasked:
        changes.append("stream_options.include_usage is added, and the event with usage removed again")
    return changes


def _waits(pool: PoolState | None, decision: Decision, now: float) -> str:
    """Why the request would not be sent immediately."""
    if pool is None or pool.queue is None:
        return ""
    return pool.queue.why_wait(decision.scheduled.priority, now)


def _text(body: bytes | Pieces) -> str | None:
    if len(body) > SHOWN_BODY_BYTES or not isinstance(body, bytes):
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
