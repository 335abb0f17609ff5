"""Reserves tokens of the limits of a request's route and tenant, waits for them, or refuses the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests import effects, fallbacks, settlement, states
from headgate.requests.limits import headers, refusing
from headgate.requests.limits.reserving import limits_of, reserved_in

if TYPE_CHECKING:
    from headgate.flow.limits import RouteLimit
    from headgate.requests.life import Life


def is_limited(life: Life) -> bool:
    """Whether its route or its tenant has a limit."""
    match, tenant = life.decision.match, life.request.tenant
    return (match is not None and match.route.limits is not None) or (
        tenant is not None and bool(tenant.limits)
    )


def reserve(life: Life, now: float, *, may_wait: bool) -> bool:
    """Return whether the request may continue: its tokens are reserved, or its limits no longer exist.
    Otherwise it waits for tokens, if `may_wait`, or is refused."""
    limits, scheduled = limits_of(life), life.decision.scheduled
    if not limits:
        return True
    input_tokens = scheduled.prompt_tokens or 1
    reserved = reserved_in(limits, input_tokens, scheduled.output_tokens, now)
    if not isinstance(reserved, int):
        life.reservation = reserved
        return True
    short = limits[reserved]
    if not may_wait:
        return _refuse(life, short, now)
    life.state = states.TOKENS
    life.todo.append(effects.FetchTokens(short, input_tokens, scheduled.output_tokens))
    return False


def refuse(life: Life, now: float) -> bool:
    """Refuse the request for lack of tokens. Return whether it may continue anyway, as its limits no longer
    exist."""
    limits = limits_of(life)
    if not limits:
        return True
    input_tokens = life.decision.scheduled.prompt_tokens or 1
    # The one that it waits for the longest.
    return _refuse(life, max(limits, key=lambda limit: limit.shortage(input_tokens, now).wait_s), now)


def _refuse(life: Life, limit: RouteLimit, now: float) -> bool:
    scheduled = life.decision.scheduled
    input_tokens = scheduled.prompt_tokens or 1
    shortage = limit.shortage(input_tokens, now)
    limit.refused(shortage)
    if limit.is_of_tenant:
        fallbacks.end(life)  # no other model is without it
    told = headers.lines(limit, input_tokens, scheduled.output_tokens, now)
    settlement.refuse(life, refusing.refusal(limit, shortage, told), now)
    return False
