"""An attempt on a pair of endpoints: one prefills the prompt, the other serves the request.

A pair is picked, the prompt is prefilled, and the decoding endpoint gets the request as any other endpoint
would. Some connectors send both at once, and the prefill is watched while the response is forwarded. If
either fails, another pair is tried, as long as no part of a response has reached the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from headgate import scheduling
from headgate.requests import asking, blaming, effects, holding, settlement, states
from headgate.requests.account import FailedAttempt
from headgate.requests.no_endpoint import no_endpoint
from headgate.requests.pairing import DISAGGREGATED, NOT_SPLIT, Pairing
from headgate.requests.prefill import PrefillAttempt
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice


def attempt(life: Life, pool: PoolState, now: float) -> None:
    """Send the request to a pair that was not tried yet."""
    plane, decision = life.plane, life.decision
    pairing = life.pairing
    if pairing is None:
        pairing = life.pairing = Pairing(decision.body, decision.change)
        refusal = None
        if plane.memory is not None and not pairing.is_in_parts:
            refusal = plane.memory.refuse_two(life.request, len(decision.body))
        if refusal is not None:
            settlement.refuse(life, refusal, now)
            return
    pair = pick(life, pairing, pool, now)
    if pair is None and holding.hold_again(life, pool, now):
        return
    if pair is None:
        settlement.refuse(life, _no_pair(life, pool, pairing, now), now)
        return
    before = pairing.pair if pairing.is_prefilled else None
    is_repeated = before is not None and pair.prefill is before.prefill
    if not is_repeated:
        discard(life, pairing, now)
    pairing.pair = pair
    pairing.decision = pair.why or DISAGGREGATED
    plane.observer.paired(pool, pairing.decision)
    if plane.engines.tell_of_caches and not is_repeated:
        plane.engines.sent(decision.scheduled, decision.body, pair.prefill or pair.decode, now)
    begun = asking.begin(life, pair.decode, now)
    prefill = pair.prefill
    held = prefill.cached_tokens if prefill is not None else 0
    asking.count_work(life, pool, max(held, pair.decode.cached_tokens))
    if pair.prefill is None:
        asking.book(life, begun)
        pool.policy.booked(pair.request, pair.decode, now)
        asking.ask(life, pool, begun, pairing.decode_body())
        return
    scheduled = decision.scheduled
    begun.booking = begun.load.book(0, scheduled.output_tokens, now, False, scheduled.adapter)
    pool.decoding.booked(pair.request, pair.decode, now)
    if not is_repeated:
        assert pair.prefill_request is not None
        pairing.prefill = PrefillAttempt(pool, pair.prefill, pair.prefill_request, life.account.attempts, now)
        body = pairing.prefill_body(pair.prefill.load, plane.rng)
        needs_response = pairing.needs_response
        life.todo.append(effects.Prefill(pool, pairing.prefill, body, needs_response=needs_response))
        life.state = states.PREFILLING
    if is_repeated or pairing.at_once:
        asking.ask(life, pool, begun, pairing.decode_body())


def pick(life: Life, pairing: Pairing, pool: PoolState, now: float) -> scheduling.Pair | None:
    """Pick the next pair; it reuses an earlier prefill that can still be fetched. Books nothing."""
    plane, scheduled, tried = life.plane, life.decision.scheduled, life.tried
    if pairing.take_terms(pool, life.request.path, plane.rules.remote_min_tokens):
        discard(life, pairing, now)
    if pool.pairs is None:
        choice = plane.pick(pool, scheduled, tried, now)
        if choice is None:
            return None
        return scheduling.Pair(decode=choice, request=scheduled, why=NOT_SPLIT)
    most = plane.rules.max_requests
    if pairing.is_prefilled and pairing.pair is not None:
        before = pairing.pair
        again = scheduling.pick_again(pool.decoding, before, pool.pairs, now, plane.rng, tried, most)
        if again is not None:
            return again
    pick_pair = partial(
        scheduling.pick_pair,
        pool.policy,
        pool.decoding,
        scheduled,
        pool.pairs,
        pairing.terms,
        now,
        plane.rng,
        max_requests=most,
    )
    if lacking := pool.not_serving(blaming.asked(life), now):
        pair = pick_pair(tried=[*tried, *lacking], tried_prefill=[*pairing.tried, *lacking])
        if pair is not None:
            return pair
    return pick_pair(tried=tried, tried_prefill=pairing.tried)


def _no_pair(life: Life, pool: PoolState, pairing: Pairing, now: float) -> Refusal:
    """Why no pair can serve the request."""
    plane, scheduled = life.plane, life.decision.scheduled
    if pairing.at_once and plane.candidates(pool, life.tried, now):
        return Refusal.unavailable(
            f"{pool.pool.key} has no pair of endpoints that can serve the request: a prefill "
            "and a decode endpoint must be ready in the same group",
            code="no_ready_endpoint",
            dropped="rejected-no-endpoints",
        )
    return no_endpoint(pool, plane.rules.max_requests, plane.refused(pool, scheduled, life.tried, now))


def do_all_of_it(life: Life, why: str, now: float) -> None:
    """Send the whole request to the decoding endpoint, although another one got the prompt."""
    pairing, pool, attempt = life.pairing, life.pool, life.attempt
    assert pairing is not None
    assert pool is not None
    assert attempt is not None
    pairing.decision = why
    pairing.pair = None
    life.plane.observer.paired(pool, why)
    settlement.end_booking(life, attempt, now)
    asking.book(life, attempt)
    asking.ask(life, pool, attempt, pairing.decode_body())


def leave_prefill(life: Life, reason: str, now: float) -> None:
    """Give up this prefill endpoint; another one has to prefill, if any."""
    pairing = life.pairing
    assert pairing is not None
    prefill = pairing.prefill
    assert prefill is not None
    pairing.tried.append(prefill.load)
    endpoint = prefill.load.endpoint
    life.account.note_failed(
        FailedAttempt(
            endpoint.name,
            reason,
            prefill.number,
            endpoint.host,
            endpoint.port,
            prefill.began_at,
            prefill.began_at if prefill.is_sent else 0.0,
            now,
            is_prefill=True,
        )
    )
    discard(life, pairing, now)


def leave_endpoint(life: Life, now: float) -> None:
    """Count the decoding endpoint as not tried."""
    attempt = life.attempt
    assert attempt is not None
    settlement.end_booking(life, attempt, now)
    life.tried.remove(attempt.load)
    life.load = None


def discard(life: Life, pairing: Pairing, now: float) -> None:
    """Discard the prefill, as it is of no use any more."""
    settlement.drop_prefill(life, now)
    pairing.prefill = pairing.pair = None


def give_up_prefill(life: Life, now: float) -> None:
    """Stop the prefill; keep a complete one if another endpoint can fetch it."""
    pairing = life.pairing
    if pairing is not None:
        settlement.drop_prefill(life, now)
        if not pairing.is_prefilled:
            discard(life, pairing, now)


def marks(life: Life, pool: PoolState, choice: Choice) -> Iterator[tuple[bytes, bytes]]:
    """The headers that the policy adds to the response, for each phase."""
    pair = life.pairing.pair if life.pairing is not None else None
    if pair is None:
        yield from pool.policy.marks(life.decision.scheduled, choice)
        return
    yield from (pool.policy if pair.prefill is None else pool.decoding).marks(pair.request, choice)
    if pair.prefill is not None and pair.prefill_request is not None:
        yield from pool.policy.marks(pair.prefill_request, pair.prefill)
