"""The whole pick: who may be asked, and whom of those the policy chooses."""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Sequence

from headgate.fleet import EndpointState, adapters
from headgate.scheduling.candidates import candidates
from headgate.scheduling.policy import Policy
from headgate.scheduling.request import Choice, Request


def pick(
    policy: Policy,
    request: Request,
    pool: Sequence[EndpointState],
    now: float,
    rng: random.Random,
    tried: Collection[EndpointState] = (),
    max_requests: int = sys.maxsize,
) -> Choice | None:
    """Where a request goes; None if nobody may be asked, or the policy refuses them all.

    `pool` is the whole pool; `max_requests` is what each of its endpoints may have in flight.
    """
    asked = candidates(pool, now, rng, tried, max_requests)
    if request.adapter:
        asked = adapters.not_lacking(request.adapter, asked)
    return policy.pick(request, asked, now, rng) if asked else None
