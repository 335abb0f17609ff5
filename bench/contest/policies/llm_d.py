"""llm-d's two recommended configurations.

Weighted: scorers with the precise prefix cache, 3 prefix + 2 queue + 2 KV cache utilization.
prefix = matched / all blocks, by KV events (`precise-prefix-cache-producer`, with `speculativeIndexing`);
queue = (max q - q) / (max q - min q), 1 if all are equal; KV = 1 - usage. The last two are read every 50 ms.

Affinity: `prefix-cache-affinity-filter`, then `token-load-scorer` (guide optimized-baseline, 2026).
The filter keeps the endpoints that hold 0.8 of the prompt, unless the one of them with the fewest tokens in
flight is more than 18 s behind the best of the others; seconds are tokens over peakPrefillThroughput, which
the operator measures. The scorer takes the fewest tokens in flight, this prompt's included. Tokens are
uncached ones, from the pick to the first byte of the answer. It believes its own picks, as much as an
engine's cache holds (`approx-prefix-cache-producer`, autoTune), of the first 131,072 tokens of a prompt.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.beliefs import KvEvents, OwnPicks
from contest.policies.published import Published, least
from contest.replicas import BLOCK_TOKENS
from contest.setup import Setup
from headgate.fleet import EndpointState
from headgate.scheduling import Request

PREFIX, QUEUE, KV = 3.0, 2.0, 2.0
SPECULATIVE_S = 2.0
SCRAPE_S = 0.05
AFFINITY = 0.8
MAX_PENALTY_S = 18.0
MATCHED_BLOCKS = 131_072 // BLOCK_TOKENS


class Weighted(Published):
    scrape_s = SCRAPE_S

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, KvEvents(SPECULATIVE_S))

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        waiting = {load: (load.reading.waiting or 0) if load.reading else 0 for load in loads}
        longest = max(waiting.values())
        span = longest - min(waiting.values())

        def cost(load: EndpointState) -> float:
            prefix = self.held(request, load, now) / (len(request.prefix) or 1)
            queue = (longest - waiting[load]) / span if span else 1.0
            usage = (load.reading.kv_usage or 0.0) if load.reading else 0.0
            return -(PREFIX * prefix + QUEUE * queue + KV * (1.0 - usage))

        return least(loads, rng, cost)


class Affinity(Published):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, OwnPicks(setup.cache_blocks, MATCHED_BLOCKS))

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        return least(
            self._kept(request, loads, now),
            rng,
            lambda load: load.prefill_tokens + self.uncached_tokens(request, load, now),
        )

    def _kept(self, request: Request, loads: Sequence[EndpointState], now: float) -> Sequence[EndpointState]:
        blocks = min(len(request.prefix), MATCHED_BLOCKS)
        sticky = [load for load in loads if self.held(request, load, now) >= AFFINITY * blocks > 0.0]
        others = [load for load in loads if load not in sticky]
        if not sticky or not others:
            return loads
        tokens = min(load.prefill_tokens for load in sticky) - min(load.prefill_tokens for load in others)
        return sticky if tokens / self.setup.prefill_tokens_per_s <= MAX_PENALTY_S else loads
