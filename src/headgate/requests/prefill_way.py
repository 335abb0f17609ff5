"""The events of a prompt that another endpoint prefills, in their usual order.

After an error response to the prefill, the decoding endpoint gets the whole request and decides; if it
already waits for the prefill, another pair is tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.fleet import ACCEPTED_AFTER_S, blame
from headgate.requests import asking, attempts, blaming, effects, fallbacks, pairs, settlement, states
from headgate.requests.pairing import NOT_HANDED_OVER
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.engines.transfer import PrefillResponse
    from headgate.fleet import EndpointState
    from headgate.requests.client import Header
    from headgate.requests.life import Life
    from headgate.requests.pairing import Pairing
    from headgate.requests.pool_state import PoolState
    from headgate.requests.prefill import PrefillAttempt


def prefill_sent(life: Life, now: float) -> None:
    """The endpoint has the prompt."""
    _, prefill, _ = _expect(life, "prefill_sent")
    prefill.is_sent = True
    prefill.heard_at = now


def prefill_head(life: Life, status: int, rest_s: float | None, now: float) -> None:
    """The response head arrived. Failures are handled immediately; otherwise the body is read."""
    _, prefill, _ = _expect(life, "prefill_head")
    if prefill.head(life.plane, status, rest_s, now):
        message = f"{prefill.load.endpoint.address} responded to the prefill with status {status}"
        _fail(life, f"status_{status}", message, now)


def prefilled(life: Life, response: PrefillResponse, now: float) -> None:
    """The prompt is prefilled: send the request to the decoding endpoint, unless it was sent already."""
    pairing, prefill, pool = _expect(life, "prefilled")
    attempt = life.attempt
    assert attempt is not None
    prefill.succeeded(life.plane, response, now)
    prefill.load.models.served(blaming.asked(life))
    if life.suspects is not None:
        blaming.blame_all(life, life.suspects.prefilled(), now)
    if pairing.at_once:
        return
    latest = life.plane.pools.get(pool.pool.key)
    able = None if latest is None else latest.pairs.decode if latest.pairs is not None else latest.loads
    if able is not None and attempt.load not in able:
        # It was removed from the pool meanwhile, and has not seen the request yet.
        pairs.leave_endpoint(life, now)
        life.account.attempts -= 1
        life.pool = latest
        attempts.attempt(life, now)
    elif pairing.lacks_parameters:
        pairs.do_all_of_it(life, NOT_HANDED_OVER, now)
    else:
        asking.ask(life, pool, attempt, pairing.decode_body())


def prefill_refused(life: Life, status: int, headers: list[Header], body: bytes, now: float) -> None:
    """The endpoint responded with an error: the fault of the request, of the gateway's changes, or of the
    endpoint."""
    pairing, prefill, pool = _expect(life, "prefill_refused")
    prefill.end(now)
    reason, refusing = f"prefill_status_{status}", prefill.load
    if not pairing.at_once:
        if blame.is_suspect(status):
            life.plane.observer.attempt_failed(pool, reason)
        _suspect(life, refusing, status, now)
        pairs.do_all_of_it(life, reason, now)
        return
    if not settlement.take_back(life):
        return
    life.todo.append(effects.DROP)
    if blame.is_suspect(status) and blaming.is_open(life, pool, status, now):
        pairs.leave_prefill(life, reason, now)
        pairs.leave_endpoint(life, now)
        if attempts.may_retry(life, pool, now, blame.RESERVED):
            life.plane.observer.attempt_failed(pool, reason)
            _suspect(life, refusing, status, now)
            attempts.retry(life, now)
            return
    if fallbacks.takes_over_from(life, status):
        settlement.move_on(life, fallbacks.ERROR, now)
        return
    if life.suspects is not None:
        blaming.blame_all(life, life.suspects.compare(status), now)
    account = life.account
    account.upstream_status = status
    account.status = settlement.told_status(life, status)
    settlement.settle(life, "served", now)
    account.bytes_out = len(body)
    life.todo.append(effects.PassWhole(status, headers, body))


def prefill_failed(life: Life, reason: str, message: str, now: float) -> None:
    """The endpoint failed: try another pair, or an endpoint that also prefills."""
    _, prefill, _ = _expect(life, "prefill_failed")
    prefill.end(now)
    _fail(life, reason, message, now)


def prefill_impossible(life: Life, message: str, now: float) -> None:
    """The gateway itself cannot reach any endpoint."""
    _, prefill, _ = _expect(life, "prefill_impossible")
    prefill.end(now)
    life.todo.append(effects.DROP)
    if settlement.take_back(life):
        settlement.refuse(life, Refusal.unavailable(message, code="gateway_exhausted"), now)
    else:
        settlement.cut_off(life, "gateway_exhausted", message, now)


def judge(life: Life, prefill: PrefillAttempt, now: float) -> None:
    """Give up an endpoint that was silent for too long. If the pool has a timeout, the shell enforces it."""
    pool = life.pool
    assert pool is not None
    silent_s = prefill.silent_s(now)
    if silent_s > ACCEPTED_AFTER_S:
        blaming.accepted(life, now)
    if not prefill.has_timer and silent_s > life.plane.rules.stream_response_timeout_s:
        address = prefill.load.endpoint.address
        _fail(life, "timeout", f"{address} did not respond to the prefill in time", now)
        return
    hang_s = prefill.load.policy.hang_s
    if silent_s > hang_s:
        prefill.load.hanging += 1
    long_s = pool.evidence.long_prefill_s(hang_s, now)
    if silent_s > long_s and life.plane.health.is_stopped(pool, prefill.load, long_s, now):
        leave_stopped(life, now)


def leave_stopped(life: Life, now: float) -> None:
    """Try another pair, if the pool allows it and nothing has reached the client. Otherwise the request keeps
    waiting."""
    pairing, pool, attempt = life.pairing, life.pool, life.attempt
    assert pairing is not None
    assert pairing.prefill is not None
    assert pool is not None
    assert attempt is not None
    stopped = pairing.prefill.load
    pairing.tried.append(stopped)
    life.tried.remove(attempt.load)
    is_granted = not life.received.has_passed and attempts.may_retry(life, pool, now)
    pairing.tried.remove(stopped)
    life.tried.append(attempt.load)
    life.plane.health.hangs(pool, stopped, now)
    if is_granted:
        settlement.take_back(life)
        life.plane.observer.attempt_failed(pool, "prefill_hang")
        pairs.leave_prefill(life, "prefill_hang", now)
        life.todo.append(effects.DROP)
        pairs.leave_endpoint(life, now)
        attempts.retry(life, now)


def _fail(life: Life, reason: str, message: str, now: float) -> None:
    """Try another pair, if the pool allows it and nothing has reached the client."""
    pairing, pool, attempt = life.pairing, life.pool, life.attempt
    assert pairing is not None
    assert pairing.prefill is not None
    assert pool is not None
    assert attempt is not None
    failed, status = pairing.prefill.load, pairing.prefill.status
    if blame.is_suspect(status):
        life.plane.observer.attempt_failed(pool, f"prefill_{reason}")
        _suspect(life, failed, status, now)
    else:
        life.plane.health.attempt_failed(pool, failed, f"prefill_{reason}", now)
    at_once = pairing.at_once
    pairs.leave_prefill(life, f"prefill_{reason}", now)
    life.todo.append(effects.DROP)
    if not settlement.take_back(life):
        settlement.cut_off(life, "prefill_failed", message, now)
        return
    # The decoding endpoint is not to blame, unless the prefill endpoint waited for it in vain.
    pairs.leave_endpoint(life, now)
    if at_once and reason == "timeout":
        life.tried.append(attempt.load)
    if attempts.may_retry(life, pool, now):
        attempts.retry(life, now)
    else:
        attempts.give_up(life, reason, message, now)


def _suspect(life: Life, load: EndpointState, status: int, now: float) -> None:
    """Record a rejection: the request's outcome elsewhere tells whether it was the endpoint's own fault."""
    if status == blaming.NOT_FOUND and life.decision.scheduled.adapter:
        blaming.lacks(life, load, now)
    elif blame.is_suspect(status):
        back_at = load.resting_until if load.resting_until > now else None
        blaming.suspect(life, load, status, now, back_at, is_prefill=True)


def _expect(life: Life, event: str) -> tuple[Pairing, PrefillAttempt, PoolState]:
    """Raise NotAllowedError if no prefill is in progress."""
    life.expect(event)
    pairing, pool = life.pairing, life.pool
    if pairing is None or pairing.running is None or pool is None:
        raise states.NotAllowedError(f"{event} of a request without a prefill: {life.story()}")
    return pairing, pairing.running, pool
