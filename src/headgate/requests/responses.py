"""Handles the response of an endpoint: its head and its first body byte. The rest bypasses the life."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.fleet import Suspect, blame
from headgate.requests import blaming, effects, settlement, states
from headgate.requests.account import SERVED
from headgate.requests.rejections import falls_back, is_of_provider, is_turned_down

if TYPE_CHECKING:
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState

_REDIRECTION: Final = 300
SWITCHING: Final = 101
"""The status by which an endpoint agrees to a WebSocket session."""


def head(life: Life, status: int, rest_s: float | None, now: float) -> None:
    """Forward the response to the client, or retry on another endpoint."""
    pool, load, account, attempt = life.pool, life.load, life.account, life.attempt
    assert pool is not None
    assert load is not None
    assert attempt is not None
    if attempt.has_timer:
        life.todo.append(effects.STOP_TIMER)
    response = effects.RESPOND
    if 400 > status >= _REDIRECTION and life.fallen is not None and is_of_provider(life, status, None, now):
        return
    if status >= 400:
        back_at = [] if rest_s is None else _back_at(life, pool, now + rest_s, now)
        if is_turned_down(life, status, rest_s, now) or falls_back(life, status, now):
            return
        if life.fallen is not None and is_of_provider(life, status, rest_s, now):
            return
        if back_at:
            response = effects.Respond(min(back_at) - now)
    else:
        evidence = pool.evidence
        if status != SWITCHING:  # the head of a session says nothing about those of responses
            evidence.silences[life.decision.stream].note(now - account.sent_at)
        if alone := evidence.shared.served(partial(blaming.shared_keys, life), load, now):
            blaming.blame_all(life, (Suspect(other, status, None) for other, status in alone), now)
        load.models.served(blaming.asked(life))
        if life.suspects is not None and not _waits_for_prefill(life):
            blaming.blame_all(life, life.suspects.served(), now)
        load.models.served_adapter(life.decision.scheduled.adapter)
    if load.suspect_until > now and not blame.is_suspect(status):
        load.responded(now, account.sent_at)
    account.upstream_status = status
    account.status = settlement.told_status(life, status)
    account.head_at = now
    life.state = states.ANSWERING
    if life.wait is not None and pool.queue is not None:
        pool.queue.responded(life)
    settlement.drop_body(life)
    life.todo.append(response)


def _back_at(life: Life, pool: PoolState, at: float, now: float) -> list[float]:
    """When endpoints accept requests again, if all that were tried want none now."""
    asked = life.suspects.back_at() if life.suspects is not None else []
    return [at, *asked, *(load.resting_until for load in pool.loads if load.resting_until > now)]


def _waits_for_prefill(life: Life) -> bool:
    return life.pairing is not None and life.pairing.waits_for_prefill


def first_byte(life: Life, now: float) -> None:
    """The first byte of the body arrived, and with it the first token."""
    account, pool, attempt, decision = life.account, life.pool, life.attempt, life.decision
    assert pool is not None
    assert attempt is not None
    account.first_byte_at = now
    if account.upstream_status >= 400:
        return  # an error says nothing about prefill time
    took_s = now - account.sent_at
    if decision.stream:
        pool.evidence.first_tokens.note(took_s)
        if life.pairing is not None:
            life.pairing.responded(decision.scheduled.prompt_tokens, took_s)
    if attempt.booking is not None:
        attempt.booking.first_token(now)
        if pool.queue is not None:
            pool.queue.room_made()


def finished(life: Life, now: float) -> None:
    """The client has received the whole response, or is about to."""
    load, account = life.load, life.account
    if load is not None and load.failures_in_row and not blame.is_suspect(account.upstream_status):
        load.succeeded(now, account.sent_at)
    settlement.settle(life, SERVED, now)
    life.todo.append(effects.FINISH)
