"""Attempts to send a request to an endpoint, until one responds or no further attempt is allowed.

An attempt that fails before the response head is followed by another while the pool allows it, immediately or
after an interval.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate.requests import (
    asking,
    blaming,
    effects,
    fallbacks,
    holding,
    learning,
    pairs,
    settlement,
    states,
)
from headgate.requests.no_endpoint import no_endpoint
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.requests.subset import Subset

log = logging.getLogger(__name__)


def first(life: Life, pool: PoolState, now: float) -> None:
    """Begin the first attempt, once the request need not wait or waits no longer."""
    life.pool = pool
    if not life.account.attempts or not life.attempts_here:
        pool.budget.requests += 1
    if life.decision.body is not life.request.body:
        life.request.body = b""  # only one of the two bodies is sent
    if life.proxied is not None and not _confine(life, life.proxied.subset, pool, now):
        return
    attempt(life, now)


def _confine(life: Life, subset: Subset | None, pool: PoolState, now: float) -> bool:
    """Exclude all other endpoints of the pool from the request. If that excludes all of them, refuse it, and
    return False."""
    if subset is None:
        return True
    excluded = subset.excluded(pool.loads)
    life.tried = [*life.tried, *(load for load in excluded if load not in life.tried)]
    if len(excluded) < len(pool.loads) or not pool.loads:
        return True
    refusal = Refusal.unavailable(
        f"{pool.pool.key} has no ready endpoint among those that the proxy allows",
        code="no_endpoint_in_subset",
        dropped="rejected-no-endpoints",
    )
    settlement.refuse(life, refusal, now)
    return False


def attempt(life: Life, now: float) -> None:
    """Send the request to an endpoint that was not tried yet.

    A policy that raises an exception fails this request only.
    """
    pool = life.pool
    assert pool is not None
    try:
        if pool.pairs is not None or life.pairing is not None:
            pairs.attempt(life, pool, now)
        else:
            _attempt_alone(life, pool, now)
    except Exception:
        broke(life, now)


def _attempt_alone(life: Life, pool: PoolState, now: float) -> None:
    plane, decision, tried = life.plane, life.decision, life.tried
    scheduled = decision.scheduled
    choice = None
    if lacking := blaming.passed_over(life, pool, now):
        choice = plane.pick(pool, scheduled, [*tried, *lacking], now)
    if choice is None:
        choice = plane.pick(pool, scheduled, tried, now)
    if choice is None and holding.hold_again(life, pool, now):
        return
    if choice is None:
        why = plane.refused(pool, scheduled, tried, now)
        settlement.refuse(life, no_endpoint(pool, plane.rules.max_requests, why), now)
        return
    may_leave = decision.fallback is not None or life.fallen is not None
    if may_leave and fallbacks.is_late(life, choice.first_token_s, now):
        settlement.move_on(life, fallbacks.SLO, now)
        return
    begun = asking.begin(life, choice, now)
    asking.count_work(life, pool, choice.cached_tokens)
    asking.book(life, begun)
    if choice.cached_tokens >= learning.MIN_TOKENS:
        begun.prefix_used_at = plane.prefixes.used_at(scheduled.prefix, choice.load)
    pool.policy.booked(scheduled, choice, now)
    if plane.engines.tell_of_caches:
        plane.engines.sent(scheduled, decision.body, choice, now)
    asking.ask(life, pool, begun, decision.body)


def broke(life: Life, now: float) -> None:
    """Refuse a request because of the exception being handled, which nothing else would report."""
    where = life.pool.pool.key if life.pool is not None else "no pool"
    log.exception("a request to %s could not be sent", where)
    life.todo.clear()  # the effects belong to a state that was never reached
    if life.state == states.OVER:
        raise
    settlement.refuse(life, Refusal.broken("the gateway failed to send the request: see its log"), now)


# -- after a failure


def failed(life: Life, reason: str, message: str, now: float, *, has_begun: bool = False) -> None:
    """End an attempt that got no response, and retry on another endpoint if that is allowed. An attempt is
    not retried once a part of its response has arrived: the endpoint may have done the work.

    `message` says what the endpoint did, for the log.
    """
    pool, load = life.pool, life.load
    assert pool is not None
    assert load is not None
    end_attempt(life, reason, now)
    life.plane.health.attempt_failed(pool, load, reason, now)
    if not has_begun and may_retry(life, pool, now):
        retry(life, now)
    elif has_begun or not _waits_for_start(life, reason, now):
        give_up(life, reason, f"{load.endpoint.address} {message}", now)


def _waits_for_start(life: Life, reason: str, now: float) -> bool:
    """Queue the request again if its pool is to be started; returns whether it is queued. Attempts that
    reached an endpoint are bounded as retries are, as the request may be what ended it."""
    assert life.pool is not None
    pool = life.plane.present(life.pool.pool.key)
    if pool is None or (reason != "connect" and life.attempts_here > life.plane.retries(pool)):
        return False
    return holding.hold_again(life, pool, now)


def go_elsewhere(life: Life, reason: str, now: float) -> None:
    """Retry on another endpoint, after the retry was granted."""
    assert life.pool is not None
    life.todo.append(effects.DROP)
    end_attempt(life, reason, now)
    life.plane.observer.attempt_failed(life.pool, reason)
    retry(life, now)


def overtake(life: Life, now: float) -> None:
    """Leave an endpoint that is slow to connect, if a retry is allowed."""
    pool, load = life.pool, life.load
    assert pool is not None
    assert load is not None
    if may_retry(life, pool, now):
        load.suspected(now)
        life.todo.append(effects.OVERTAKE)
        go_elsewhere(life, "slow_connect", now)


def give_up(life: Life, reason: str, logged: str, now: float) -> None:
    """Refuse the request because its last attempt failed; `logged` names the endpoint."""
    if reason == "timeout":
        told, code = "no endpoint responded in time", "upstream_timeout"
        refusal = Refusal.upstream(told, code=code, status=504, logged=logged)
    elif reason == "connect":
        told, code = "the gateway could not connect to an endpoint", "endpoint_unreachable"
        refusal = Refusal.unavailable(told, code=code, logged=logged)
    else:
        told, code = "the endpoint failed before it responded", "upstream_failed"
        refusal = Refusal.upstream(told, code=code, logged=logged)
    settlement.refuse(life, refusal, now)


def end_attempt(life: Life, reason: str, now: float) -> None:
    """End the attempt on this endpoint; blaming it is up to the caller."""
    attempt = life.attempt
    assert attempt is not None
    life.todo.append(effects.STOP_TIMER)
    life.load = None
    settlement.end_booking(life, attempt, now)
    settlement.note_failed(life, reason, now)
    pairs.give_up_prefill(life, now)


def begin_again(life: Life, reason: str, now: float) -> bool:
    """Retry with another pair after a response that broke off before any of it was forwarded."""
    assert life.pool is not None
    if not may_retry(life, life.pool, now):
        return False
    life.todo.append(effects.DROP)
    end_attempt(life, reason, now)
    retry(life, now)
    return True


def may_retry(life: Life, pool: PoolState, now: float, reserved: float = 0.0) -> bool:
    """Whether the pool allows another attempt, has an untried endpoint, and has a retry left beyond the
    reserved ones; if so, spend the retry. Uses the pool's current endpoints, as those from the request's
    arrival may be gone."""
    plane = life.plane
    latest = plane.present(pool.pool.key)
    if latest is None or not life.may_repeat:
        return False
    life.pool = latest
    return (
        life.attempts_here <= plane.retries(latest)
        and _is_another(life, latest, now)
        and plane.take_retry(latest, now, reserved)
    )


def _is_another(life: Life, pool: PoolState, now: float) -> bool:
    if life.pairing is not None:
        try:
            return pairs.pick(life, life.pairing, pool, now) is not None
        except Exception:
            log.exception("no pair could be picked in %s", pool.pool.key)
            return False
    return any(load.resting_until <= now for load in life.plane.candidates(pool, life.tried, now))


def retry(life: Life, now: float) -> None:
    """Retry immediately, or after the pool's interval."""
    assert life.pool is not None
    interval_s = life.pool.pool.retry_interval_s
    if interval_s > 0:
        life.state = states.RETRYING
        life.todo.append(effects.StartTimer(interval_s))
    else:
        attempt(life, now)


def ask_afresh(life: Life) -> None:
    """Send the request to the same endpoint again, on a new connection; its timer keeps running."""
    assert life.pool is not None
    assert life.attempt is not None
    life.state = states.REACHING
    body = life.decision.body if life.pairing is None else life.pairing.decode_body()
    life.todo.append(effects.Ask(life.pool, life.attempt.load, body, is_afresh=True))


def finds_pool(life: Life, waited_for: str, now: float) -> bool:
    """Continue with the pool as it is now, or refuse the request if the pool is gone."""
    assert life.pool is not None
    key = life.pool.pool.key
    pool = life.plane.present(key)
    if pool is None:
        why = f"{key} was deleted while the request waited {waited_for}"
        refusal = Refusal.unavailable(why, code="no_ready_endpoint", dropped="rejected-no-endpoints")
        settlement.refuse(life, refusal, now)
        return False
    life.pool = pool
    return True
