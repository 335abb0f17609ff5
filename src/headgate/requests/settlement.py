"""The end of a request: closes its account, once, and releases what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.requests import effects, fallbacks, learning, states
from headgate.requests.account import CLIENT_GONE, SERVED, FailedAttempt
from headgate.requests.blaming import blame_all
from headgate.requests.limits import reserving
from headgate.requests.received import HOLLOW
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.life import Attempt, Life

BROKE_OFF: Final = {
    "gateway_exhausted": "the gateway cannot open another connection",
    "idle_timeout": "the endpoint sent nothing for too long",
    "prefill_failed": "the endpoint that prefilled the prompt failed",
    "upstream_invalid": "the endpoint sent invalid HTTP",
    "upstream_lost": "the endpoint closed the connection",
}
"""The message for clients, by outcome. Only the log has system errors, which may contain addresses."""
_OK: Final = 200


def settle(life: Life, outcome: str, now: float) -> None:
    """Close the account. The caller adds the last effect."""
    assert life.state != states.OVER, f"settled twice: {life.account.outcome}, then {outcome}"
    account, attempt, pool = life.account, life.attempt, life.pool
    life.state = states.OVER
    account.outcome = outcome
    is_served = outcome == SERVED
    if life.traffic is not None:
        life.traffic.ended(now)
    if life.suspects is not None and pool is not None:
        is_well = is_served and account.upstream_status < 400
        blame_all(life, life.suspects.served() if is_well else life.suspects.compare(0), now)
    if life.pairing is not None and life.pairing.running is not None:
        if is_served:  # the prefill has done its work; only its response is late
            life.todo.append(effects.LEAVE_PREFILL)
        else:
            drop_prefill(life, now)
    received = life.received
    usage = None
    if received.size:
        account.bytes_out = received.passed_bytes
        account.usage = received.usage(account.bytes_in)
        usage = account.usage if is_served and received.is_one_response else None
    if is_served and account.upstream_status == _OK:
        _judge_content(life, now)
    booking = attempt.booking if attempt is not None else None
    if attempt is not None and booking is not None:
        end_booking(life, attempt, now, usage.completion if usage is not None else None)
    if usage is not None:
        learning.learn(life, usage, booking, now)
    if life.reservation is not None:
        reserving.settle(life, life.reservation, now)
    queue = pool.queue if pool is not None else None
    if queue is not None and (life.wait is not None or queue.counts_all):
        queue.settled(life, now)
    if life.request.body or life.decision.body:
        drop_body(life)


def _judge_content(life: Life, now: float) -> None:
    usage, load = life.account.usage, life.load
    if (usage is not None and usage.completion) or load is None or life.pool is None:
        return
    if life.received.is_hollow(life.request.path, usage, is_stream=life.decision.stream):
        life.plane.health.disappointed(life.pool, load, HOLLOW, now)


def refuse(life: Life, refusal: Refusal, now: float) -> None:
    """Refuse the request, because no endpoint can be tried, or tried again; or send it to its next model or
    pool, if it has one."""
    if reason := fallbacks.reason_of(life, refusal.code, now):
        move_on(life, reason, now)
        return
    if life.fallen is not None:
        refusal = fallbacks.told(life, refusal)
    if life.state & (states.TRYING | states.ANSWERING):
        life.todo.append(effects.DROP)
        drop_prefill(life, now)
    account = life.account
    account.status = told_status(life, refusal.status)
    account.error_message = refusal.log_message
    settle(life, refusal.code, now)
    life.todo.append(effects.Refuse(refusal))


def move_on(life: Life, reason: str, now: float) -> None:
    """Leave the model or pool for the next one. Nothing counts for the one that is left, except failures of
    its endpoints."""
    pool = life.pool
    if life.state & (states.TRYING | states.ANSWERING):
        life.todo.append(effects.DROP)
        drop_prefill(life, now)
    if life.load is not None:
        note_failed(life, reason, now)
    if life.suspects is not None and pool is not None:
        blame_all(life, life.suspects.compare(0), now)
        life.suspects = None
    if life.attempt is not None:
        end_booking(life, life.attempt, now)
    if life.reservation is not None:
        life.reservation.settle(0, 0, now)
        life.reservation = None
    if life.traffic is not None:
        life.traffic.ended(now)
        life.traffic = None
    queue = pool.queue if pool is not None else None
    if queue is not None and (life.wait is not None or queue.counts_all):
        queue.settled(life, now)
    life.attempt = life.load = life.pairing = None
    life.tried.clear()
    fallbacks.take_next(life, reason)
    life.state = states.NEW
    life.todo.append(effects.FALL_BACK)


def told_status(life: Life, status: int) -> int:
    """The status that the client gets: a client that received progress already has a 200."""
    return _OK if life.wait is not None and life.wait.has_head else status


def hang_up(life: Life, outcome: str, now: float) -> None:
    """The client has left, or reads nothing any more."""
    life.account.status = CLIENT_GONE
    settle(life, outcome, now)
    life.todo.append(effects.HANG_UP)


def cut_off(life: Life, outcome: str, message: str, now: float) -> None:
    """End a request whose response broke off. If nothing of it was forwarded, refuse the request."""
    refusal = Refusal.upstream(
        f"the response broke off: {BROKE_OFF.get(outcome, 'the endpoint failed')}",
        code=outcome,
        logged=f"the response broke off: {message}",
    )
    if not life.received.has_passed:
        life.received.forget(life.request.path)
        life.todo.append(effects.TAKE_BACK)
        refuse(life, refusal, now)
        return
    drop_prefill(life, now)
    life.account.error_message = refusal.log_message
    settle(life, outcome, now)
    life.todo.append(effects.CutOff(refusal))


def take_back(life: Life) -> bool:
    """Withdraw a response of which nothing has reached the client; return whether that was possible."""
    account = life.account
    if not account.status:
        return True
    if life.received.has_passed:
        return False
    life.received.forget(life.request.path)
    account.status = account.upstream_status = 0
    account.head_at = account.first_byte_at = 0.0
    life.todo.append(effects.TAKE_BACK)
    return True


def note_failed(life: Life, reason: str, now: float) -> None:
    """Record the attempt on this endpoint as one without a response that was forwarded."""
    attempt, account = life.attempt, life.account
    assert attempt is not None
    endpoint = attempt.load.endpoint
    sent_at = account.sent_at if account.sent_at >= attempt.began_at else 0.0
    account.note_failed(
        FailedAttempt(
            endpoint.name,
            reason,
            account.attempts,
            endpoint.host,
            endpoint.port,
            attempt.began_at,
            sent_at,
            now,
        )
    )


# -- held resources


def drop_body(life: Life) -> None:
    """Drop the body, as no further attempt can follow: a stream need not hold its prompt."""
    life.request.body = life.decision.body = b""
    life.decision.change = None
    if life.fallen is not None:
        life.fallen.body = life.fallen.upcoming = None


def end_booking(life: Life, attempt: Attempt, now: float, response_tokens: int | None = None) -> None:
    """`response_tokens`: those of a complete response, if the endpoint reported them."""
    if attempt.booking is not None:
        attempt.booking.end(now, response_tokens)
        attempt.booking = None
        assert life.pool is not None
        if life.pool.queue is not None:
            life.pool.queue.room_made()


def drop_prefill(life: Life, now: float) -> None:
    """Stop a prefill in progress."""
    if life.pairing is not None and life.pairing.running is not None:
        life.pairing.running.end(now)
        life.todo.append(effects.DROP_PREFILL)
