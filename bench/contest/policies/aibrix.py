"""AIBrix, `prefix-cache`, with the defaults of its code.

Least request if max r - min r > 8; else, of the endpoints that hold a part, ordered by match (largest first)
and requests (fewest first), the first with r <= mean + 1 standard deviation; else least request.

Cache contents are assumed from its own picks: 200,000 blocks of 128 characters per endpoint, as documented.
Not modeled: a block expires 20 minutes after its last use.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

from contest.beliefs import OwnPicks
from contest.policies.published import Published, least
from contest.replicas import BLOCK_TOKENS
from contest.setup import Setup
from headgate.fleet import EndpointState
from headgate.scheduling import Request

IMBALANCE = 8
DEVIATIONS = 1
TABLE_BLOCKS, BLOCK_CHARACTERS = 200_000, 128
CHARACTERS_PER_TOKEN = 4


class PrefixCache(Published):
    def __init__(self, setup: Setup) -> None:
        tokens = TABLE_BLOCKS * BLOCK_CHARACTERS // CHARACTERS_PER_TOKEN
        super().__init__(setup, OwnPicks(tokens // BLOCK_TOKENS))

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        counts = [load.requests for load in loads]
        if max(counts) - min(counts) <= IMBALANCE:
            bound = statistics.fmean(counts) + DEVIATIONS * statistics.pstdev(counts)
            matched = [(-self.held(request, load, now), load.requests, at) for at, load in enumerate(loads)]
            for held, requests, at in sorted(matched):
                if held < 0 and requests <= bound:
                    return loads[at]
        return least(loads, rng, lambda load: load.requests)
