"""Error responses: whether the request is retried on another endpoint, and what they say about the first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.fleet import Suspects, adapters, blame
from headgate.requests import blaming, fallbacks, providers, settlement
from headgate.requests.attempts import end_attempt, go_elsewhere, may_retry

if TYPE_CHECKING:
    from headgate.requests.life import Life

_SERVER_ERROR: Final = 500


def is_turned_down(life: Life, status: int, rest_s: float | None, now: float) -> bool:
    """Whether an error response is dropped because the request is retried on another endpoint.

    `rest_s`: how long the endpoint wants no requests, if it says so.
    """
    adapter = life.decision.scheduled.adapter
    if status == blaming.NOT_FOUND and adapter:
        return _goes_where_adapter_is(life, adapter, now)
    if blame.is_suspect(status):
        return _goes_elsewhere(life, status, rest_s, now)
    if life.suspects is not None:  # the client's mistake, which only this endpoint noticed
        blaming.blame_all(life, life.suspects.served(), now)
    return False


def falls_back(life: Life, status: int, now: float) -> bool:
    """Whether an error response is dropped because another model or pool takes the request over."""
    if not fallbacks.takes_over_from(life, status):
        return False
    end_attempt(life, f"status_{status}", now)
    settlement.move_on(life, fallbacks.ERROR, now)
    return True


def is_of_provider(life: Life, status: int, rest_s: float | None, now: float) -> bool:
    """Whether an error response is dropped because it comes from an external provider: the client gets one of
    the gateway."""
    pool = life.pool
    assert pool is not None
    if not pool.pool.is_outside:
        return False
    end_attempt(life, f"status_{status}", now)
    settlement.refuse(life, providers.refusal(pool.pool, status, rest_s), now)
    return True


def _goes_where_adapter_is(life: Life, adapter: str, now: float) -> bool:
    """Drop a 404 for an adapter if another endpoint may have it. The endpoint is healthy, but lacks the
    adapter."""
    pool, load = life.pool, life.load
    assert pool is not None
    assert load is not None
    blaming.lacks(life, load, now)
    others = life.plane.candidates(pool, life.tried, now)
    is_elsewhere = any(adapters.place(other, adapter) != "unknown" for other in others)
    if not is_elsewhere or not may_retry(life, pool, now, blame.RESERVED):
        return False
    go_elsewhere(life, "status_404", now)
    return True


def _goes_elsewhere(life: Life, status: int, rest_s: float | None, now: float) -> bool:
    """Drop a rejection that may be the endpoint's own fault, if another endpoint can be tried. Its response
    tells whose fault it was."""
    pool, load, plane = life.pool, life.load, life.plane
    assert pool is not None
    assert load is not None
    back_at = None if rest_s is None else plane.health.rests(pool, load, rest_s, now)
    suspects = life.suspects = life.suspects or Suspects()
    is_alone = not suspects.are_open and not plane.retries(pool)
    is_retried, failed = suspects.rejected(
        load,
        status,
        back_at,
        pool.evidence.shared,
        partial(blaming.shared_key, life, status),
        lambda reserved: may_retry(life, pool, now, reserved),
        now,
    )
    blaming.blame_all(life, failed, now)
    if is_retried:
        go_elsewhere(life, f"status_{status}", now)
    elif status in blame.UNAVAILABLE:
        plane.observer.attempt_failed(pool, f"status_{status}")
    elif is_alone and status >= _SERVER_ERROR:
        plane.health.disappointed(pool, load, f"status_{status}", now)
    return is_retried
