"""Handles endpoints that send nothing and clients that read nothing; runs about once a second."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headgate.fleet import ACCEPTED_AFTER_S
from headgate.fleet.ejection import HANG
from headgate.requests import attempts, blaming, effects, prefill_way, settlement, states
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState


def judge(life: Life, now: float, *, is_stalled: bool, has_begun: bool) -> None:
    """Give up whatever was silent for too long. `is_stalled`: the client reads nothing. `has_begun`: a part
    of a response head has arrived."""
    if life.pairing is not None and life.pairing.running is not None:
        prefill_way.judge(life, life.pairing.running, now)
    if not life.state & (states.SENT | states.ANSWERING):
        return  # queueing, connecting and retry intervals have their own timeouts
    pool, load, account, rules = life.pool, life.load, life.account, life.plane.rules
    assert pool is not None
    assert load is not None
    silent_s = now - account.heard_at
    if is_stalled:
        if silent_s > rules.idle_timeout_s:
            settlement.hang_up(life, "client_stalled", now)  # do not make the endpoint wait forever
    elif life.state == states.ANSWERING:
        if silent_s > rules.idle_timeout_s:
            break_off(life, "idle_timeout", "the endpoint sent nothing for too long", now)
        elif not account.first_byte_at and silent_s > load.policy.hang_s:
            load.hanging += 1
    elif silent_s > _head_timeout_s(life):
        no_head_in_time(life, now, has_begun=has_begun)
    else:
        _judge_endpoint(life, pool, load, silent_s, now, has_begun=has_begun)


def _head_timeout_s(life: Life) -> float:
    """The timeout for the response head, infinite if a timer enforces it."""
    rules = life.plane.rules
    if life.attempt is not None and life.attempt.has_timer:
        return math.inf
    return rules.stream_response_timeout_s if life.decision.stream else rules.response_timeout_s


def no_head_in_time(life: Life, now: float, *, has_begun: bool) -> None:
    life.todo.append(effects.DROP)
    attempts.failed(life, "timeout", "sent no response head in time", now, has_begun=has_begun)


def _judge_endpoint(
    life: Life, pool: PoolState, load: EndpointState, silent_s: float, now: float, *, has_begun: bool
) -> None:
    """Leave an endpoint that sends nothing at all, if no part of a response has arrived and a retry is
    allowed. Otherwise the request keeps waiting."""
    if silent_s > ACCEPTED_AFTER_S:
        blaming.accepted(life, now)
    hang_s = load.policy.hang_s
    if silent_s > hang_s:
        load.hanging += 1
    health = life.plane.health
    long_s = pool.evidence.long_silence_s(life.decision.stream, hang_s, now)
    if silent_s > long_s and health.is_stopped(pool, load, long_s, now):
        leave_stopped(life, now, has_begun=has_begun)


def leave_stopped(life: Life, now: float, *, has_begun: bool = False) -> None:
    """Leave an endpoint that sends nothing at all."""
    pool, load = life.pool, life.load
    assert pool is not None
    assert load is not None
    is_granted = not has_begun and attempts.may_retry(life, pool, now)
    life.plane.health.hangs(pool, load, now)
    if is_granted:
        attempts.go_elsewhere(life, "hang", now)


def break_off(life: Life, outcome: str, message: str, now: float) -> None:
    """A response ends early. If the client has a part of it, closing the connection is for most clients the
    only reliable sign; a pair whose response was not forwarded may be retried."""
    blaming.endpoint_failed(life, outcome, now)
    is_kept = life.pairing is None or not settlement.take_back(life)
    if is_kept or not attempts.begin_again(life, outcome, now):
        settlement.cut_off(life, outcome, message, now)


def invalid(life: Life, message: str, now: float, *, is_head: bool) -> None:
    """An endpoint sent invalid HTTP."""
    if not is_head:
        break_off(life, "upstream_invalid", message, now)
        return
    settlement.take_back(life)
    blaming.endpoint_failed(life, "upstream_invalid", now)
    told = "the endpoint's response is not valid HTTP"
    settlement.refuse(life, Refusal.upstream(told, code="upstream_invalid", logged=message), now)


def judge_impatience(life: Life, now: float) -> None:
    """The client has left, maybe because nothing arrived. Clients that give up before a hang is detected
    would otherwise hide it forever."""
    pool, load, account = life.pool, life.load, life.account
    if not life.state & (states.SENT | states.ANSWERING) or account.first_byte_at:
        return
    assert pool is not None
    assert load is not None
    hang_s = load.policy.hang_s
    if life.state == states.ANSWERING:
        long_s = pool.evidence.long_first_token_s(hang_s, now)
    else:
        long_s = pool.evidence.long_silence_s(life.decision.stream, hang_s, now)
    if now - account.sent_at > long_s and life.plane.health.is_silent(pool, load, account.sent_at):
        blaming.endpoint_failed(life, HANG, now)
