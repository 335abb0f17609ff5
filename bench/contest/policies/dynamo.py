"""NVIDIA Dynamo's KV router with exact overlap; temperature 0, scale and credit 1.

linear:  (prefill blocks in flight + incoming - overlap) + decode blocks in flight + incoming
lmetric: (prefill blocks in flight + incoming - overlap) * (requests in flight + 1)

Its text counts the factor of lmetric in decode blocks; with requests, as in the paper, it does better here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.policies.published import Published, least
from contest.replicas import BLOCK_TOKENS
from headgate.fleet import EndpointLoad
from headgate.scheduling import Request


class Linear(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        def cost(load: EndpointLoad) -> float:
            prefill = load.prefill_tokens + self.view.uncached_tokens(request, load)
            return prefill / BLOCK_TOKENS + self.prompt_blocks[load] + len(request.prefix)

        return least(loads, rng, cost)


class LMetric(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        def cost(load: EndpointLoad) -> float:
            prefill = load.prefill_tokens + self.view.uncached_tokens(request, load)
            return prefill * (load.requests + 1)

        return least(loads, rng, cost)
