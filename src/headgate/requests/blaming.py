"""Decides who is at fault for a rejection: collects what one request saw, and updates the pool's evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.fleet import Suspects, blame

if TYPE_CHECKING:
    from headgate.fleet import EndpointState, ModelPath, Suspect
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState

NOT_FOUND: Final = 404
_CREDENTIALS: Final = (b"authorization", b"x-api-key", b"api-key")


def asked(life: Life) -> ModelPath:
    """What the request requires of any endpoint."""
    return life.decision.upstream_model, life.request.path


def blame_all(life: Life, suspects: Iterable[Suspect], now: float) -> None:
    """Count the failures of endpoints that were found to be at fault."""
    pool = life.pool
    assert pool is not None
    for each in suspects:
        is_lack = each.status == NOT_FOUND
        if not (is_lack and pool.evidence.not_found(each.load, asked(life), now)):
            life.plane.health.failed(pool, each.load, each.reason, now)


def accepted(life: Life, now: float) -> None:
    """The endpoint has worked on the request for long: it did not reject it, as others did."""
    if life.suspects is not None:
        is_prefilling = life.pairing is not None and life.pairing.running is not None
        suspects = life.suspects.prefilled() if is_prefilling else life.suspects.served()
        blame_all(life, suspects, now)


def endpoint_failed(life: Life, reason: str, now: float) -> None:
    """The endpoint that was to respond has failed."""
    assert life.pool is not None
    assert life.load is not None
    life.plane.health.attempt_failed(life.pool, life.load, reason, now)


def suspect(
    life: Life,
    load: EndpointState,
    status: int,
    now: float,
    back_at: float | None = None,
    *,
    is_prefill: bool = False,
) -> None:
    """Record a rejection that may be the endpoint's own fault; the response of another endpoint will
    decide."""
    if life.suspects is None:
        life.suspects = Suspects()
    life.suspects.add(load, status, now, back_at, is_prefill=is_prefill)


def lacks(life: Life, load: EndpointState, now: float) -> None:
    """Record that an endpoint does not have the request's adapter."""
    load.lacks(life.decision.scheduled.adapter, now)
    life.plane.engines.list_models_soon(load)


def passed_over(life: Life, pool: PoolState, now: float) -> list[EndpointState]:
    """Endpoints that rejected similar requests, while others may serve them."""
    evidence = pool.evidence
    lacking = pool.not_serving(asked(life), now) if evidence.unserved_until > now else []
    if evidence.shared.alone_until > now:
        lacking += evidence.shared.alone_with(shared_keys(life), now)
    return lacking


def is_open(life: Life, pool: PoolState, status: int, now: float) -> bool:
    """Whether another endpoint's response to the request would help to explain the status."""
    is_shared = life.suspects is not None and life.suspects.have(status)
    return pool.evidence.shared.is_open(status, partial(shared_key, life, status), now, is_shared=is_shared)


def shared_keys(life: Life) -> Iterator[tuple[object, ...]]:
    """Keys of all rejections that say nothing about an endpoint."""
    return (shared_key(life, status) for status in blame.LIKELY_SHARED)


def shared_key(life: Life, status: int) -> tuple[object, ...]:
    """What a rejection by all endpoints depends on. Only a hash of credentials is kept."""
    if status == NOT_FOUND:
        return status, *asked(life)
    return status, hash(tuple(life.request.header(name) for name in _CREDENTIALS))
