"""llm-d's weighted scorers with the precise prefix cache: 3 prefix + 2 queue + 2 KV cache utilization.

prefix = matched / all blocks; queue = (max q - q) / (max q - min q), 1 if all are equal; KV = 1 - usage.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.policies.published import Published, least
from headgate.fleet import EndpointLoad
from headgate.scheduling import Request

PREFIX, QUEUE, KV = 3.0, 2.0, 2.0


class Weighted(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        waiting = self.waiting
        longest = max(waiting[load] for load in loads)
        span = longest - min(waiting[load] for load in loads)

        def cost(load: EndpointLoad) -> float:
            prefix = self.view.held(request, load) / (len(request.prefix) or 1)
            queue = (longest - waiting[load]) / span if span else 1.0
            usage = min(1.0, self.prompt_blocks[load] / self.view.fleet.cache_blocks)
            return -(PREFIX * prefix + QUEUE * queue + KV * (1.0 - usage))

        return least(loads, rng, cost)
