"""What a request takes from its route's limit: an estimate at first, at its end what it used.

Nothing is used by a request to which no endpoint gave an answer, or only an error. Where an answer broke off,
or its client left, the prompt counts, and as much of the answer as came: engines send what they generate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests.account import SERVED

if TYPE_CHECKING:
    from headgate.flow.limits import Reservation, RouteLimit
    from headgate.requests.life import Life


def limit_of(life: Life) -> RouteLimit | None:
    """That of the request's route; None if it has none, or none any more."""
    match = life.decision.match
    return life.plane.token_limits.by_route.get(match.route.key) if match is not None else None


def settle(life: Life, reservation: Reservation, now: float) -> None:
    """Counts what the request used, whatever became of it."""
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
