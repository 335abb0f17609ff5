"""The endpoint that a pool's policy would pick for a request, with its reasons, as the data path would pick
it.

The random seed is fixed, so repeated explanations agree.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headgate import scheduling
from headgate.requests import pairing, terms

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.requests.decision import Decision
    from headgate.requests.pool_state import PoolState


def _rng() -> random.Random:
    return random.Random(0)  # noqa: S311 - keeps no secret


@dataclass(frozen=True)
class Picked:
    """The endpoint that would respond, and the one that would prefill for it."""

    choice: scheduling.Choice | None
    reasons: Mapping[EndpointState, str]
    """Why each eligible endpoint was picked, or not."""
    pair: scheduling.Pair | None = None
    terms: scheduling.Terms = field(default_factory=scheduling.Terms)
    connector: str = ""

    def phases_in_words(self) -> list[str]:
        """Where the prompt is prefilled, for pools with separate prefill."""
        if self.pair is None:
            return []
        if self.pair.prefill is None:
            why = terms.in_words(self.pair.why, self.terms)
            return [f"the prompt is prefilled where it is decoded ({self.pair.why}): {why}"]
        endpoint = self.pair.prefill.load.endpoint
        told = f"the prompt is prefilled by {endpoint.name} ({endpoint.address}), and its cache handed over"
        return [f"{told} by {self.connector}"]


def asked_of(pool: PoolState, now: float, max_requests: int) -> Sequence[EndpointState]:
    """The endpoints that may serve the request."""
    loads = pool.loads if pool.pairs is None else pool.pairs.decode
    return scheduling.candidates(loads, now, _rng(), (), max_requests)


def pick(
    pool: PoolState, decision: Decision, path: str, now: float, max_requests: int, remote_tokens: int
) -> Picked:
    """`remote_tokens`: the gateway's threshold. `path`: the request's path."""
    request = decision.scheduled
    asked = asked_of(pool, now, max_requests)
    lacking = pool.not_serving((decision.upstream_model, path), now)
    unserved = f"recently responded with 404 to {path} of model {decision.upstream_model}, which others serve"
    if pool.pairs is None or pool.pool.phases is None:
        choice = scheduling.pick(pool.policy, request, pool.loads, now, _rng(), lacking, max_requests)
        if choice is None and lacking:
            lacking = []
            choice = scheduling.pick(pool.policy, request, pool.loads, now, _rng(), (), max_requests)
        asked = [load for load in asked if load not in lacking]
        reasons = {**dict.fromkeys(lacking, unserved), **pool.policy.reasons(request, asked, choice, now)}
        return Picked(choice, reasons)
    phases = pool.pool.phases
    body = pairing.read_body(path, decision.body, decision.change)
    agreed = terms.terms(pool, phases, body, remote_tokens)
    pick_pair = partial(scheduling.pick_pair, pool.policy, pool.decoding, request, pool.pairs, agreed, now)
    pair = pick_pair(_rng(), lacking, lacking, max_requests)
    if pair is None and lacking:
        lacking = []
        pair = pick_pair(_rng(), (), (), max_requests)
    asked = [load for load in asked if load not in lacking]
    if pair is None:
        return Picked(None, pool.policy.reasons(request, asked, None, now))
    is_apart = pair.prefill is not None
    policy = pool.decoding if is_apart else pool.policy
    reasons = dict(policy.reasons(pair.request, asked, pair.decode, now))
    for load in pool.loads:
        if load not in pool.pairs.decode:
            reasons[load] = "only prefills for others"
    reasons |= dict.fromkeys(lacking, unserved)
    if pair.prefill is not None and pair.prefill_request is not None:
        able = pool.pairs.prefill_of(pair.decode.load)
        told = pool.policy.reasons(pair.prefill_request, able, pair.prefill, now)
        reasons |= {load: f"prefills: {why}" for load, why in told.items() if load is pair.prefill.load}
    return Picked(pair.decode, reasons, pair, agreed, phases.connector)
