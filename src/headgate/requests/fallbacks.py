"""Fallbacks: whether a request leaves its model or pool for the next one, and what that is.

Only the list of the route that the client's model has counts, or that of its pool: the next models' own lists
do not. So a request goes to at most as many pools as that list has entries, and never in a circle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from headgate.api.fallbacks import ERROR, LIMIT, NO_ENDPOINT, SATURATED, SLO
from headgate.requests.deciding.decide_next import decide_next
from headgate.requests.decision import Decision
from headgate.requests.fallen import Fallen, Hop
from headgate.requests.refusal import START_FAILED, STARTING, Refusal

if TYPE_CHECKING:
    from headgate import routing
    from headgate.requests.life import Life

__all__ = [
    "ERROR",
    "LIMIT",
    "NO_ENDPOINT",
    "REASONS",
    "SATURATED",
    "SLO",
    "end",
    "is_late",
    "of",
    "reason_of",
    "take_next",
    "takes_over_from",
    "told",
    "waits_s",
]

REASONS: Final = {
    "no_ready_endpoint": NO_ENDPOINT,
    "no_suited_endpoint": NO_ENDPOINT,
    "no_target": NO_ENDPOINT,
    "pool_not_found": NO_ENDPOINT,
    "model_not_found": NO_ENDPOINT,  # a route leads to a ModelServer that does not exist
    STARTING: NO_ENDPOINT,
    START_FAILED: NO_ENDPOINT,
    "queue_full": SATURATED,
    "queue_timeout": SATURATED,
    "pool_saturated": SATURATED,
    "endpoints_full": SATURATED,
    "endpoint_unreachable": ERROR,
    "upstream_failed": ERROR,
    "upstream_invalid": ERROR,
    "upstream_timeout": ERROR,
    "provider_failed": ERROR,
    "provider_key_rejected": ERROR,
    "provider_saturated": ERROR,
    "rate_limit_exceeded": LIMIT,
}
"""By the code of the refusal that the client would get."""
_TOO_MANY, _SERVER_ERROR = 429, 500


def of(life: Life) -> routing.Fallback | None:
    """What may take over the request; None if nothing does, or nothing is left. A proxy that only asks for a
    pick has no other pool to send it to."""
    if life.proxied is not None:
        return None
    fallen = life.fallen
    if fallen is None or fallen.fallback is None:
        return life.decision.fallback
    return fallen.fallback if fallen.place < len(fallen.fallback.next) else None


def reason_of(life: Life, code: str, now: float) -> str:
    """The reason to go on to the next model or pool instead of refusing the request with this code; empty if
    it is to be refused, as one is whose client has given up."""
    fallback = of(life)
    reason = REASONS.get(code, "")
    if fallback is None or not reason or life.account.status:
        return ""
    if life.wait is not None and now >= life.wait.patience_ends_at:
        return ""
    if reason not in fallback.reasons:
        if reason != SATURATED or SLO not in fallback.reasons:
            return ""
        reason = SLO
    return reason if _finds_next(life, fallback) else ""


def takes_over_from(life: Life, status: int) -> bool:
    """Whether the next model or pool gets the request because of the status of a response."""
    fallback = of(life)
    if fallback is None:
        return False
    is_error = ERROR in fallback.reasons and (status >= _SERVER_ERROR or status == _TOO_MANY)
    return (is_error or status in fallback.statuses) and _finds_next(life, fallback)


def is_late(life: Life, expected_s: float | None, now: float) -> bool:
    """Whether the next model or pool gets the request because its first token is expected too late."""
    fallback = of(life)
    if fallback is None or fallback.first_token_s is None or SLO not in fallback.reasons:
        return False
    if expected_s is None or now + expected_s - life.request.arrived_at <= fallback.first_token_s:
        return False
    return _finds_next(life, fallback)


def waits_s(life: Life, now: float, *, is_without_endpoints: bool) -> float:
    """How long a request waits in a queue before the next model or pool gets it."""
    fallback = of(life)
    if fallback is None or not _finds_next(life, fallback):
        return float("inf")
    if is_without_endpoints:
        return 0.0 if NO_ENDPOINT in fallback.reasons else float("inf")
    waits = fallback.after_s if SATURATED in fallback.reasons else float("inf")
    if SLO in fallback.reasons and fallback.first_token_s is not None:
        waits = min(waits, max(life.request.arrived_at + fallback.first_token_s - now, 0.0))
    return waits


def take_next(life: Life, reason: str) -> None:
    """Replace the decision by the next one, which was found."""
    fallen, before = life.fallen, life.decision
    assert fallen is not None
    assert fallen.upcoming is not None
    route = before.match.route.name if before.match is not None else ""
    pool = life.pool.name if life.pool is not None else ""
    if fallen.fallback is None:
        fallen.fallback = before.fallback
    fallen.hops.append(Hop(before.model, route, pool, reason))
    fallen.attempts = life.account.attempts
    life.decision, fallen.upcoming = fallen.upcoming, None
    fallen.place += 1
    life.pool = None


def end(life: Life) -> None:
    """Nothing takes the request over any more."""
    fallback = of(life)
    if fallback is not None:
        fallen = life.fallen = life.fallen or Fallen()
        fallen.fallback, fallen.place = fallback, len(fallback.next)


def told(life: Life, refusal: Refusal) -> Refusal:
    """The refusal of a request, which says what was left before."""
    hops = life.fallen.hops if life.fallen is not None else ()
    if not hops:
        return refusal
    left = ", ".join(f"{hop.model[:256]!r} ({hop.reason})" for hop in hops)
    message = f"{refusal.message}; this was for {life.decision.model[:256]!r}, after {left}"
    logged = f"{refusal.logged}; after {left}" if refusal.logged else ""
    return msgspec.structs.replace(refusal, message=message, logged=logged)


def _finds_next(life: Life, fallback: routing.Fallback) -> bool:
    """Decide about the next model or pool, unless that was done. Those that do not exist, that the client
    may not use, or that the request was sent to are passed over."""
    if not life.may_repeat:
        return False
    fallen = life.fallen
    if fallen is None:
        fallen = life.fallen = Fallen()
    if fallen.upcoming is not None and _is_current(life, fallen.upcoming):
        return True
    fallen.upcoming = None
    before = life.decision
    if fallen.body is None and not isinstance(before.body, bytes):
        return False
    for place in range(fallen.place, len(fallback.next)):
        decision = decide_next(life.plane, life.request, before, fallback.next[place], fallen.body)
        if decision.refusal is None and not _was_there(life, decision):
            fallen.place, fallen.upcoming = place, decision
            return True
    return False


def _is_current(life: Life, decision: Decision) -> bool:
    """Whether its pool is still the one that requests go to."""
    pool = decision.pool
    return pool is not None and life.plane.present(pool.pool.key) is pool


def _was_there(life: Life, decision: Decision) -> bool:
    """Whether the request was sent to this pool already, for the same model."""
    pool = decision.pool
    if pool is None:
        return True
    present = life.decision
    if present.pool is not None and present.pool.name == pool.name:
        return present.upstream_model == decision.upstream_model
    hops = life.fallen.hops if life.fallen is not None else ()
    return any(hop.pool == pool.name and hop.model == decision.model for hop in hops)
