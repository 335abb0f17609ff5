"""Reserves tokens of the limits of a request: first an estimate, and at the end the actual usage.

A request without a response, or with an error response, uses nothing. If the response broke off or the client
left, the prompt counts, and as much of the response as arrived, since engines send tokens as they generate
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.requests.account import SERVED

if TYPE_CHECKING:
    from headgate.flow.limits import Reservation, RouteLimit
    from headgate.requests.life import Life


def limit_of(life: Life) -> RouteLimit | None:
    """The limit of the request's route; None if it has none, or no longer has one."""
    match = life.decision.match
    return life.plane.routes.limits.by_route.get(match.route.key) if match is not None else None


def limits_of(life: Life) -> Sequence[RouteLimit]:
    """The limits that the request must fit: of its route, and of its tenant."""
    of_route, tenant = limit_of(life), life.request.tenant
    found = [] if of_route is None else [of_route]
    if tenant is not None and tenant.limits:
        by_key = life.plane.routes.limits.by_route
        found += [by_key[key] for key in tenant.limits if key in by_key]
    return found


def reserved_in(
    limits: Sequence[RouteLimit], input_tokens: int, output_tokens: int, now: float
) -> Reservation | int:
    """The reservation of these tokens in all limits; or the index of the first that has too few, and then
    nothing is taken."""
    first = limits[0].reserve(input_tokens, output_tokens, now)
    if first is None:
        return 0
    others: list[Reservation] = []
    for index in range(1, len(limits)):
        other = limits[index].reserve(input_tokens, output_tokens, now)
        if other is None:
            for each in (first, *others):
                each.give_back(now)
            return index
        others.append(other)
    if others:
        first.also = tuple(others)
    return first


def settle(life: Life, reservation: Reservation, now: float) -> None:
    """Count what the request used, whatever its outcome."""
    account = life.account
    usage = account.usage
    if not account.bytes_out or account.upstream_status >= 400:
        reservation.settle(0, 0, now)
        return
    # Counts of a session are complete only up to its last response that was booked.
    if usage is not None and account.outcome == SERVED and reservation.booked is None:
        answer = usage.completion
    else:
        expected, is_stream = reservation.output_tokens, life.decision.stream
        answer = life.received.tokens(expected, usage, is_stream=is_stream)
    prompt = usage.prompt if usage is not None else 0
    if reservation.booked is not None:
        before_prompt, before_answer = reservation.booked
        reservation.settle(max(prompt - before_prompt, 0), max(answer - before_answer, 0), now)
        return
    reservation.settle(prompt or reservation.input_tokens, answer, now)
