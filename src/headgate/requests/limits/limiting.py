"""Reserves tokens of a route's limit for a request, waits for them, or refuses the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests import effects, settlement, states
from headgate.requests.limits import headers, refusing
from headgate.requests.limits.reserving import limit_of

if TYPE_CHECKING:
    from headgate.requests.life import Life


def is_limited(life: Life) -> bool:
    """Whether its route has a limit."""
    match = life.decision.match
    return match is not None and match.route.limits is not None


def reserve(life: Life, now: float, *, may_wait: bool) -> bool:
    """Return whether the request may continue: its tokens are reserved, or its limit no longer exists.
    Otherwise it waits for tokens, if `may_wait`, or is refused."""
    limit, scheduled = limit_of(life), life.decision.scheduled
    if limit is None:
        return True
    input_tokens = scheduled.prompt_tokens or 1
    life.reservation = limit.reserve(input_tokens, scheduled.output_tokens, now)
    if life.reservation is not None:
        return True
    if not may_wait:
        return refuse(life, now)
    life.state = states.TOKENS
    life.todo.append(effects.FetchTokens(limit, input_tokens, scheduled.output_tokens))
    return False


def refuse(life: Life, now: float) -> bool:
    """Refuse the request for lack of tokens. Return whether it may continue anyway, as its limit no longer
    exists."""
    limit, scheduled = limit_of(life), life.decision.scheduled
    if limit is None:
        return True
    input_tokens = scheduled.prompt_tokens or 1
    shortage = limit.shortage(input_tokens, now)
    limit.refused(shortage)
    told = headers.lines(limit, input_tokens, scheduled.output_tokens, now)
    settlement.refuse(life, refusing.refusal(limit, shortage, told), now)
    return False
