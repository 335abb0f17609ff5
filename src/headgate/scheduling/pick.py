"""The whole pick: the eligible endpoints, and the policy's choice among them."""

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
    """The endpoint for a request; None if none is eligible, or the policy refuses all.

    `pool` is the whole pool; `max_requests` limits the requests in flight per endpoint.
    """
    asked = candidates(pool, now, rng, tried, max_requests)
    if request.adapter:
        asked = adapters.not_lacking(request.adapter, asked)
    return policy.pick(request, asked, now, rng) if asked else None
