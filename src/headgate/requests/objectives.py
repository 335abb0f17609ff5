"""Whether a request that is over got its first token within the time that its client wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests.account import CLIENT

if TYPE_CHECKING:
    from headgate.requests.life import Life


def is_missed(life: Life, objective_s: float, now: float) -> bool | None:
    """None if that cannot be known: the response was not streamed, the request was invalid, or the client
    left before `objective_s` seconds were over."""
    account = life.account
    if not life.decision.stream or (400 <= account.status < 500 and account.status not in (429, 499)):
        return None
    arrived_at = life.request.arrived_at
    if account.first_byte_at:
        return account.first_byte_at - arrived_at > objective_s
    if account.outcome in CLIENT and now - arrived_at <= objective_s:
        return None
    return True
