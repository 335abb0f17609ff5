"""Engines of first order: each prefills one prompt after the other, and has a block cache.

A request waits for those before it, takes its uncached tokens over the prefill rate, and generates tokens at
a fixed pace afterwards. Decoding takes nothing from prefilling, and the cache holds prompts only.
"""

from __future__ import annotations

from typing import NamedTuple

from contest.cache import BlockCache
from headgate.simulator.traces import TimedRequest

BLOCK_TOKENS = 512
DECODE_STEP_S = 0.02


class Fleet(NamedTuple):
    """Equal engines."""

    replicas: int = 8
    prefill_tokens_per_s: float = 16_000.0
    cache_blocks: int = 6000


class Served(NamedTuple):
    """How a request fared."""

    first_token_at: float
    end_at: float
    cached_blocks: int


class Replica:
    """One engine. As prompts are served in order, what becomes of one is known as it arrives."""

    def __init__(self, fleet: Fleet) -> None:
        self.cache = BlockCache(fleet.cache_blocks)
        self.free_at = 0.0
        self._token_s = 1.0 / fleet.prefill_tokens_per_s

    def uncached_tokens(self, request: TimedRequest) -> int:
        """Tokens that it would prefill."""
        return max(0, request.prompt_tokens - BLOCK_TOKENS * self.cache.matched(request.prefix))

    def first_token_at(self, request: TimedRequest, now: float) -> float:
        """When it would send the first token of a request that comes now."""
        return max(self.free_at, now) + self.uncached_tokens(request) * self._token_s

    def serve(self, request: TimedRequest, now: float) -> Served:
        cached = self.cache.matched(request.prefix)
        self.free_at = self.first_token_at(request, now)
        self.cache.use(request.prefix)
        return Served(self.free_at, self.free_at + DECODE_STEP_S * request.output_tokens, cached)
