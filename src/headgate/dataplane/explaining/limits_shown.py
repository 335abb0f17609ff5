"""The state of route limits, for `/debug/limits`, explanations, and the decision header."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.dataplane.explaining.explanation import LimitShown
from headgate.requests.limits import headers, refusing

if TYPE_CHECKING:
    from headgate.flow.limits import Account, RouteLimit, RouteLimits
    from headgate.requests.decision import Decision
    from headgate.requests.refusal import Refusal

Shown = dict[str, Any]


def page(limits: RouteLimits, now: float) -> Shown:
    """Every limit, by the name of its route."""
    return {limit.name: _limit(limit, now) for limit in limits.by_route.values()}


def _limit(limit: RouteLimit, now: float) -> Shown:
    shown: Shown = {
        "unit": limit.written.unit,
        "redis": limit.written.redis_address,
        "degraded": limit.is_parted,
    }
    for account in limit.accounts():
        shown[account.direction] = _account(account, now)
    return shown


def _account(account: Account, now: float) -> Shown:
    budget = account.budget
    return {
        "limit": budget.limit,
        "available": round(budget.available(now), 3),
        "reserved": account.reserved,
        "used": account.used,
        "requests_refused": account.refused,
        "full_in_s": round(budget.wait_s(budget.limit, now), 3),
    }


def explained(limit: RouteLimit | None, now: float, *, is_live: bool) -> tuple[LimitShown, ...]:
    """Each direction of a route's limit; what is left is known only for a running gateway."""
    if limit is None:
        return ()
    return tuple(
        LimitShown(
            direction=account.direction,
            tokens=account.budget.limit,
            unit=limit.written.unit,
            available=int(account.budget.available(now)) if is_live else None,
            reserved=account.reserved if is_live else None,
        )
        for account in limit.accounts()
    )


def refusal(limit: RouteLimit | None, decision: Decision, now: float) -> Refusal | None:
    """Why the request would be rejected now; None if the limit allows it. Reserves nothing."""
    if limit is None:
        return None
    scheduled = decision.scheduled
    input_tokens = scheduled.prompt_tokens or 1
    shortage = limit.shortage(input_tokens, now)
    if shortage.wait_s <= 0:
        return None
    told = headers.lines(limit, input_tokens, scheduled.output_tokens, now)
    return refusing.refusal(limit, shortage, told)


def pairs(limit: RouteLimit | None, now: float) -> list[tuple[str, str]]:
    """For the decision header: tokens left of each direction."""
    if limit is None:
        return []
    return [
        (f"limit-{account.direction}", f"{int(account.budget.available(now))}/{account.budget.limit}")
        for account in limit.accounts()
    ]
