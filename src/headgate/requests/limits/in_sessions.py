"""Counts the tokens of each response in a session when it is complete, and whether another may follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.flow.limits import Reservation
from headgate.requests.limits.headers import duration
from headgate.requests.limits.reserving import limits_of, reserved_in

if TYPE_CHECKING:
    from headgate.flow.limits import RouteLimit
    from headgate.requests.life import Life
    from headgate.requests.reported import Usage


def book(life: Life, usage: Usage, before: Usage | None, now: float) -> RouteLimit | None:
    """Count the tokens of a session up to now, of which those up to `before` were counted, and reserve some
    for its next response. Returns a limit that has none left."""
    limits, reservation = limits_of(life), life.reservation
    if not limits:
        return None
    prompt, completion = usage.prompt, usage.completion
    if before is not None:
        prompt, completion = max(prompt - before.prompt, 0), max(completion - before.completion, 0)
    life.reservation = None
    if reservation is not None:
        reservation.settle(prompt, completion, now)
    else:
        _charge(life, prompt, completion, now)
    return reserve(life, usage, now)


def reserve(life: Life, usage: Usage, now: float) -> RouteLimit | None:
    """Reserve tokens for the next response of a session, with this usage so far; or a limit that has none."""
    limits = limits_of(life)
    if not limits:
        return None
    found: Reservation | int = reserved_in(limits, 1, life.decision.scheduled.output_tokens, now)
    if isinstance(found, int):
        return limits[found]
    found.booked = usage.prompt, usage.completion
    life.reservation = found
    return None


def _charge(life: Life, prompt: int, completion: int, now: float) -> None:
    """Count tokens of which none were reserved."""
    for limit in limits_of(life):
        for account, tokens in ((limit.input, prompt), (limit.output, completion)):
            if account is not None:
                account.settle(0, tokens, now)


def refused(life: Life, limit: RouteLimit, usage: Usage, now: float) -> str:
    """Count a session that ends with this usage for lack of tokens; returns why, in few words, for its close
    frame."""
    _hold_nothing(life, usage)
    shortage = limit.shortage(1, now)
    limit.refused(shortage)
    if limit.is_cut_off:
        return "the counter of token limits cannot be reached: try again soon"
    wait = duration(shortage.wait_s).decode()
    left = f"no {shortage.direction} tokens are left of {shortage.limit} per {shortage.unit}"
    return f"{left}: try again in {wait}"


def _hold_nothing(life: Life, usage: Usage) -> None:
    """Reserve no tokens, so that it is known at the end what was counted."""
    held = [Reservation(limit, limit.input, 0, limit.output, 0) for limit in limits_of(life)]
    if held:
        held[0].also = tuple(held[1:])
        held[0].booked = usage.prompt, usage.completion
        life.reservation = held[0]
