"""Attempts to bring a request to an endpoint, until one answers or none may be tried any more.

An attempt that fails before the answer's head is followed by another while the pool allows it, at once or
after an interval.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate.requests import asking, blaming, effects, learning, pairs, settlement, states
from headgate.requests.decision import no_endpoint
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState

log = logging.getLogger(__name__)


def first(life: Life, pool: PoolState, now: float) -> None:
    """Begins: the request need not wait for its turn, or no longer."""
    life.pool = pool
    pool.budget.requests += 1
    if life.decision.body is not life.request.body:
        life.request.body = b""  # of the two, one is sent
    attempt(life, now)


def attempt(life: Life, now: float) -> None:
    """Sends the request to an endpoint that was not tried yet.

    A policy that raises fails the request, and nothing else.
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
    if choice is None:
        why = plane.refused(pool, scheduled, tried, now)
        settlement.refuse(life, no_endpoint(pool, plane.rules.max_requests, why), now)
        return
    begun = asking.begin(life, choice, now)
    asking.book(life, begun)
    if choice.cached_tokens >= learning.MIN_TOKENS:
        begun.prefix_used_at = plane.prefixes.used_at(scheduled.prefix, choice.load)
    pool.policy.booked(scheduled, choice, now)
    if plane.engines.tell_of_caches:
        plane.engines.sent(scheduled, decision.body, choice, now)
    asking.ask(life, pool, begun, decision.body)


def broke(life: Life, now: float) -> None:
    """Refuses a request for an exception that nobody else would see, which is being handled."""
    where = life.pool.pool.key if life.pool is not None else "no pool"
    log.exception("a request to %s could not be sent", where)
    life.todo.clear()  # what was to be done is of a state that it never reached
    if life.state == states.OVER:
        raise
    settlement.refuse(life, Refusal.broken("the gateway failed to send the request: its log says why"), now)


# -- after a failure


def failed(life: Life, reason: str, message: str, now: float, *, has_begun: bool = False) -> None:
    """Ends an attempt that got no answer; tries another endpoint while that is allowed, and unless a part of
    a response had come: the endpoint may have done the work, and nobody else is asked to do it again.

    `message` says of the endpoint what it did, for the log.
    """
    pool, load = life.pool, life.load
    assert pool is not None
    assert load is not None
    end_attempt(life, reason, now)
    life.plane.health.attempt_failed(pool, load, reason, now)
    if not has_begun and may_retry(life, pool, now):
        retry(life, now)
    else:
        give_up(life, reason, f"{load.endpoint.address} {message}", now)


def go_elsewhere(life: Life, reason: str, now: float) -> None:
    """Leaves the endpoint for another; a retry was granted."""
    assert life.pool is not None
    life.todo.append(effects.DROP)
    end_attempt(life, reason, now)
    life.plane.observer.attempt_failed(life.pool, reason)
    retry(life, now)


def overtake(life: Life, now: float) -> None:
    """Leaves an endpoint that is slow to connect, if that may be."""
    pool, load = life.pool, life.load
    assert pool is not None
    assert load is not None
    if may_retry(life, pool, now):
        load.suspected(now)
        life.todo.append(effects.OVERTAKE)
        go_elsewhere(life, "slow_connect", now)


def give_up(life: Life, reason: str, logged: str, now: float) -> None:
    """Tells the client that the last attempt failed, and the log what happened where."""
    if reason == "timeout":
        told, code = "no endpoint answered in time", "upstream_timeout"
        refusal = Refusal.upstream(told, code=code, status=504, logged=logged)
    elif reason == "connect":
        told, code = "no connection to an endpoint could be made", "endpoint_unreachable"
        refusal = Refusal.unavailable(told, code=code, logged=logged)
    else:
        told, code = "the endpoint failed before it answered", "upstream_failed"
        refusal = Refusal.upstream(told, code=code, logged=logged)
    settlement.refuse(life, refusal, now)


def end_attempt(life: Life, reason: str, now: float) -> None:
    """Leaves the endpoint; who is to blame is the caller's."""
    attempt = life.attempt
    assert attempt is not None
    life.todo.append(effects.STOP_TIMER)
    life.load = None
    settlement.end_booking(life, attempt, now)
    life.account.note_failed(attempt.load.endpoint.name, reason, now - attempt.began_at)
    pairs.give_up_prefill(life, now)


def begin_again(life: Life, reason: str, now: float) -> bool:
    """Tries another pair after an answer that broke off before anything of it was passed on."""
    assert life.pool is not None
    if not may_retry(life, life.pool, now):
        return False
    life.todo.append(effects.DROP)
    end_attempt(life, reason, now)
    retry(life, now)
    return True


def may_retry(life: Life, pool: PoolState, now: float, reserved: float = 0.0) -> bool:
    """Whether the pool allows another attempt, has an endpoint that was not tried, and a retry to spare
    besides those reserved, which is spent. Its endpoints of now are meant: those of the request's arrival may
    be gone."""
    plane = life.plane
    latest = plane.pools.get(pool.pool.key)
    if latest is None:
        return False
    life.pool = latest
    return (
        life.account.attempts <= plane.retries(latest)
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
    """Tries again, at once or after the pool's interval."""
    assert life.pool is not None
    interval_s = life.pool.pool.retry_interval_s
    if interval_s > 0:
        life.state = states.RETRYING
        life.todo.append(effects.StartTimer(interval_s))
    else:
        attempt(life, now)


def ask_afresh(life: Life) -> None:
    """The same endpoint is asked once more, on a new connection; its time goes on."""
    assert life.pool is not None
    assert life.attempt is not None
    life.state = states.REACHING
    body = life.decision.body if life.pairing is None else life.pairing.decode_body()
    life.todo.append(effects.Ask(life.pool, life.attempt.load, body, is_afresh=True))


def finds_pool(life: Life, waited_for: str, now: float) -> bool:
    """Goes on with the pool as it is now; where that is gone, the request is refused."""
    assert life.pool is not None
    key = life.pool.pool.key
    pool = life.plane.pools.get(key)
    if pool is None:
        why = f"{key} was deleted while the request waited {waited_for}"
        refusal = Refusal.unavailable(why, code="no_ready_endpoint", dropped="rejected-no-endpoints")
        settlement.refuse(life, refusal, now)
        return False
    life.pool = pool
    return True
