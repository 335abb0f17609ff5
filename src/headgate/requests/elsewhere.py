"""Events of requests that another proxy sends, which only asks for a pick.

Such a proxy retries by itself, and may ignore the pick. What follows belongs to the endpoint that has the
request: its load, the content of its cache, its health. If another endpoint is to prefill the prompt, a
sidecar of the decoding endpoint asks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import scheduling
from headgate.engines.transfer import PrefillResponse
from headgate.requests import asking, attempts, prefill_way, states

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.life import Life


def served_by(life: Life, load: EndpointState, now: float, *, has_failed: bool) -> None:
    """The request is at this endpoint. `has_failed`: the proxy tried the picked one first.

    A request whose prompt is prefilled by another endpoint stays where it was picked, as the pair belongs
    together.
    """
    life.expect("served_by")
    attempt, pool = life.attempt, life.pool
    assert attempt is not None
    assert pool is not None
    picked = attempt.load
    if load is picked or life.pairing is not None:
        return
    scheduled = life.decision.scheduled
    attempts.end_attempt(life, "passed_over", now)
    if has_failed:
        life.plane.health.attempt_failed(pool, picked, "passed_over", now)
    choice = scheduling.Choice(load=load, cached_tokens=_cached_tokens(life.plane, scheduled, load))
    asking.book(life, asking.begin(life, choice, now))
    pool.policy.booked(scheduled, choice, now)
    life.state = states.SENT


def left_to_sidecar(life: Life, now: float) -> None:
    """The proxy is told which endpoint prefills; the decoding endpoint gets the whole request."""
    pairing, pool, attempt = life.pairing, life.pool, life.attempt
    assert pairing is not None
    assert pool is not None
    assert attempt is not None
    prefill_way.prefill_sent(life, now)
    body = pairing.leave_to_sidecar()
    if not pairing.at_once:
        asking.ask(life, pool, attempt, body)


def sidecar_responded(life: Life, now: float) -> None:
    """The first byte of the response has arrived, so that the prompt is prefilled; or the response is an
    error."""
    prefill = life.pairing.running if life.pairing is not None else None
    if prefill is None:
        return
    if life.account.upstream_status < 400:
        prefill.succeeded(life.plane, PrefillResponse(), now)
    else:
        prefill.end(now)


def _cached_tokens(plane: DataPlane, scheduled: scheduling.Request, load: EndpointState) -> int:
    """Tokens of the prompt that the endpoint is believed to have cached."""
    if not scheduled.prefix:
        return 0
    blocks = plane.prefixes.matched(scheduled.prefix, (load,))[0]
    if not blocks:
        return 0
    units = scheduled.block_ends[blocks - 1] if scheduled.block_ends else blocks
    return min(int(units * scheduled.block_tokens), scheduled.prompt_tokens)
