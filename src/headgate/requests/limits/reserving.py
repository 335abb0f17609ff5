"""Settles a request's reservation of its route's limit: first an estimate, at the end the actual usage.

A request without a response, or with an error response, uses nothing. If the response broke off or the client
left, the prompt counts, and as much of the response as arrived, since engines send tokens as they generate
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests.account import SERVED

if TYPE_CHECKING:
    from headgate.flow.limits import Reservation, RouteLimit
    from headgate.requests.life import Life


def limit_of(life: Life) -> RouteLimit | None:
    """The limit of the request's route; None if it has none, or no longer has one."""
    match = life.decision.match
    return life.plane.routes.limits.by_route.get(match.route.key) if match is not None else None


def settle(life: Life, reservation: Reservation, now: float) -> None:
    """Count what the request used, whatever its outcome."""
    account = life.account
    usage = account.usage
    if not account.bytes_out or account.upstream_status >= 400:
        reservation.settle(0, 0, now)
        return
    if usage is not None and account.outcome == SERVED:
        answer = usage.completion
    else:
        expected, is_stream = reservation.output_tokens, life.decision.stream
        answer = life.received.tokens(expected, usage, is_stream=is_stream)
    prompt = usage.prompt if usage is not None else 0
    reservation.settle(prompt or reservation.input_tokens, answer, now)
