"""NVIDIA Dynamo's KV router, with overlap from KV events; temperature 0, scale and credit 1.

    linear:  (prefill blocks in flight + incoming - overlap) + decode blocks in flight + incoming
    lmetric: (prefill blocks in flight + incoming - overlap) * (requests in flight + 1)

Its documentation states the factor of lmetric in decode blocks; with requests, as in the paper, it performs
better here. Its workers always stream to its frontend.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.beliefs import KvEvents
from contest.policies.published import Published, least
from contest.replicas import BLOCK_TOKENS
from contest.setup import Setup
from headgate.fleet import EndpointState
from headgate.scheduling import Request


class Linear(Published):
    sees_first_tokens = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, KvEvents())

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        def cost(load: EndpointState) -> float:
            prefill = load.prefill_tokens + self.uncached_tokens(request, load, now)
            return prefill / BLOCK_TOKENS + self.prompt_blocks[load] + len(request.prefix)

        return least(loads, rng, cost)


class LMetric(Published):
    sees_first_tokens = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, KvEvents())

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        def cost(load: EndpointState) -> float:
            prefill = load.prefill_tokens + self.uncached_tokens(request, load, now)
            return prefill * (load.requests + 1)

        return least(loads, rng, cost)
