"""Whose fault a rejection is: what is remembered of one request, and told to the pool's evidence."""

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
    """What the request asks of any endpoint."""
    return life.decision.upstream_model, life.request.path


def blame_all(life: Life, suspects: Iterable[Suspect], now: float) -> None:
    """Counts the failures of endpoints that were found to be at fault."""
    pool = life.pool
    assert pool is not None
    for each in suspects:
        is_lack = each.status == NOT_FOUND
        if not (is_lack and pool.evidence.not_found(each.load, asked(life), now)):
            life.plane.health.failed(pool, each.load, each.reason, now)


def accepted(life: Life, now: float) -> None:
    """The endpoint works on the request for long: it has not rejected it, as others did."""
    if life.suspects is not None:
        is_prefilling = life.pairing is not None and life.pairing.running is not None
        suspects = life.suspects.prefilled() if is_prefilling else life.suspects.served()
        blame_all(life, suspects, now)


def endpoint_failed(life: Life, reason: str, now: float) -> None:
    """The endpoint that was to answer has failed."""
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
    """The rejection may be the endpoint's own fault: the response of another will tell."""
    if life.suspects is None:
        life.suspects = Suspects()
    life.suspects.add(load, status, now, back_at, is_prefill=is_prefill)


def lacks(life: Life, load: EndpointState, now: float) -> None:
    """An endpoint does not have the adapter that the request is for."""
    load.lacks(life.decision.scheduled.adapter, now)
    life.plane.engines.list_models_soon(load)


def passed_over(life: Life, pool: PoolState, now: float) -> list[EndpointState]:
    """Endpoints that rejected requests of the like, while others may serve them."""
    evidence = pool.evidence
    lacking = pool.not_serving(asked(life), now) if evidence.unserved_until > now else []
    if evidence.shared.alone_until > now:
        lacking += evidence.shared.alone_with(shared_keys(life), now)
    return lacking


def is_open(life: Life, pool: PoolState, status: int, now: float) -> bool:
    """Whether another endpoint's response to the request would tell more of the status."""
    is_shared = life.suspects is not None and life.suspects.have(status)
    return pool.evidence.shared.is_open(status, partial(shared_key, life, status), now, is_shared=is_shared)


def shared_keys(life: Life) -> Iterator[tuple[object, ...]]:
    """Those of all rejections that say nothing of an endpoint."""
    return (shared_key(life, status) for status in blame.LIKELY_SHARED)


def shared_key(life: Life, status: int) -> tuple[object, ...]:
    """What a rejection by all endpoints depends on; of credentials only a hash is kept."""
    if status == NOT_FOUND:
        return status, *asked(life)
    return status, hash(tuple(life.request.header(name) for name in _CREDENTIALS))
