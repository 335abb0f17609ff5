"""Shepherd Model Gateway (SGLang's router): `cache_aware` and `least_load`, defaults.

cache_aware: the least load if max r - min r > 64 and max r > 1.5 min r; else the best match if it covers more
than 0.3 of the prompt, else the least load. Cache contents are assumed from its picks: a tree of 67,108,864
characters for each worker (`max_tree_size`).

least_load: least of (waiting tokens + tokens sent since the last poll) / throughput + 0.15 k / (1 - k)
seconds, where k is the share of the KV cache in use, and throughput what the engine says it generates, 2,000
tokens/s if it says nothing. Engines are polled every 10 s (`load_check_interval_secs`); until all were, the
fewest requests. It is meant for gRPC workers, which report the uncached tokens that wait, and there the
router knows a prompt's tokens: so it is here.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from contest.beliefs import OwnPicks
from contest.policies.published import Page, Published, least
from contest.replicas import BLOCK_TOKENS
from contest.setup import Setup
from headgate.fleet import EndpointState
from headgate.scheduling import Choice, Request

BALANCE_ABSOLUTE = 64
BALANCE_RELATIVE = 1.5
CACHE_THRESHOLD = 0.3
TREE_CHARACTERS, CHARACTERS_PER_TOKEN = 67_108_864, 4
POLL_S = 10.0
KV_WEIGHT_S = 0.15
MAX_KV_USAGE = 0.999
USUAL_THROUGHPUT = 2000.0


class CacheAware(Published):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, OwnPicks(TREE_CHARACTERS // CHARACTERS_PER_TOKEN // BLOCK_TOKENS))

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        counts = [load.requests for load in loads]
        most, fewest = max(counts), min(counts)
        if most - fewest <= BALANCE_ABSOLUTE or most <= BALANCE_RELATIVE * fewest:
            matches = [self.held(request, load, now) for load in loads]
            best = max(matches)
            if best > CACHE_THRESHOLD * len(request.prefix):
                return loads[matches.index(best)]
        return least(loads, rng, lambda load: load.requests)


class _Poll(NamedTuple):
    at: float
    output_tokens: float
    waiting_tokens: int
    throughput: float
    """Tokens per second since the previous poll; 0 if none were generated, or there was no previous poll."""
    kv_usage: float


class LeastLoad(Published):
    scrape_s = POLL_S

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._polls: dict[EndpointState, _Poll] = {}
        self._sent_tokens: dict[EndpointState, int] = defaultdict(int)

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        if len(self._polls) < len(loads):
            return least(loads, rng, lambda load: load.requests)
        return least(loads, rng, self._seconds)

    def _seconds(self, load: EndpointState) -> float:
        poll = self._polls[load]
        tokens = poll.waiting_tokens + self._sent_tokens[load]
        usage = min(poll.kv_usage, MAX_KV_USAGE)
        return tokens / (poll.throughput or USUAL_THROUGHPUT) + KV_WEIGHT_S * usage / (1.0 - usage)

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        super().booked(request, choice, now)
        self._sent_tokens[choice.load] += request.prompt_tokens

    def scraped(self, load: EndpointState, page: Page, now: float) -> None:
        before = self._polls.get(load)
        throughput = 0.0
        if before is not None and now > before.at:
            throughput = (page.output_tokens - before.output_tokens) / (now - before.at)
        usage = (load.reading.kv_usage or 0.0) if load.reading is not None else 0.0
        self._polls[load] = _Poll(now, page.output_tokens, page.waiting_tokens(), throughput, usage)
        self._sent_tokens[load] = 0
