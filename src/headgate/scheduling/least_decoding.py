"""Where an answer is generated whose prompt was prefilled elsewhere: on the endpoint with the least to do."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from headgate.fleet import EndpointLoad
from headgate.scheduling.policy import Choice, Policy
from headgate.scheduling.prefixes import Prefixes
from headgate.scheduling.request import Request

TRANSFER_WORK = 1 / 16
"""What it costs to fetch the cache of one token, in tokens of prefill: of an 8B model it is 128 KB, which at
200 Gbit/s takes 5 µs, and a GPU that prefills 16,000 tokens a second takes 60 µs for a token."""


class LeastDecoding(Policy):
    """Least of what the ledger says it owes, and of the prompt that it has to fetch. Ties fall by chance.

    One that returns from an ejection counts as owing more than it does, by its share.
    """

    name = "least-decoding"
    uses_prefix = True

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes

    def pick(
        self, request: Request, candidates: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> Choice | None:
        best, least, most_cached, ties = candidates[0], math.inf, 0, 0
        for load, blocks in self._held(request, candidates):
            work, cached = self._weigh(request, load, blocks, now)
            if work < least:
                best, least, most_cached, ties = load, work, cached, 1
            elif work == least:
                ties += 1
                if rng.random() * ties < 1.0:
                    best, most_cached = load, cached
        return Choice(load=best, cached_tokens=most_cached)

    def _held(
        self, request: Request, candidates: Sequence[EndpointLoad]
    ) -> Sequence[tuple[EndpointLoad, int]]:
        if not request.prefix:
            return [(load, 0) for load in candidates]
        return list(zip(candidates, self._prefixes.matched(request.prefix, candidates), strict=True))

    def _weigh(self, request: Request, load: EndpointLoad, blocks: int, now: float) -> tuple[float, int]:
        """Work in tokens of prefill, and the cached tokens."""
        cached = request.tokens_in(blocks)
        work = load.work_tokens + TRANSFER_WORK * (request.prompt_tokens - cached)
        if load.suspect_until > now:
            work /= load.share(now) or 1.0
        return work, cached

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        if request.prefix:
            self._prefixes.add(request.prefix, choice.load, now)

    def why(self, request: Request, load: EndpointLoad, choice: Choice, now: float) -> str:
        ((_, blocks),) = self._held(request, [load])
        work, cached = self._weigh(request, load, blocks, now)
        return f"decodes: owes {work:.0f} tokens of work, {cached} of {request.prompt_tokens} tokens cached"
