"""AIBrix, `prefix-cache`, defaults of its code.

Least request if max r - min r > 8; else of the endpoints that hold a part, by match (largest first) and
requests (fewest first), the first with r <= mean + 1 standard deviation; else least request.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

from contest.policies.published import Published, least
from headgate.fleet import EndpointLoad
from headgate.scheduling import Request

IMBALANCE = 8
DEVIATIONS = 1


class PrefixCache(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        counts = [load.requests for load in loads]
        if max(counts) - min(counts) <= IMBALANCE:
            bound = statistics.fmean(counts) + DEVIATIONS * statistics.pstdev(counts)
            matched = [(-self.view.held(request, load), load.requests, at) for at, load in enumerate(loads)]
            for held, requests, at in sorted(matched):
                if held < 0 and requests <= bound:
                    return loads[at]
        return least(loads, rng, lambda load: load.requests)
