"""Shepherd Model Gateway (SGLang's router), `cache_aware`, defaults.

The least load if max r - min r > 64 and max r > 1.5 min r; else the best match if it covers more than 0.3 of
the prompt, else the least load.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.policies.published import Published, least
from headgate.fleet import EndpointLoad
from headgate.scheduling import Request

BALANCE_ABSOLUTE = 64
BALANCE_RELATIVE = 1.5
CACHE_THRESHOLD = 0.3


class CacheAware(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        counts = [load.requests for load in loads]
        most, fewest = max(counts), min(counts)
        if most - fewest <= BALANCE_ABSOLUTE or most <= BALANCE_RELATIVE * fewest:
            matches = [self.view.held(request, load) for load in loads]
            best = max(matches)
            if best > CACHE_THRESHOLD * len(request.prefix):
                return loads[matches.index(best)]
        return least(loads, rng, lambda load: load.requests)
