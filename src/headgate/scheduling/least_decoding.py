"""Picks the decoding endpoint for a prompt prefilled elsewhere: the one with the least to do."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from headgate.fleet import EndpointState, Prediction
from headgate.scheduling.policy import Policy
from headgate.scheduling.predicted import in_flight_tokens
from headgate.scheduling.prefixes import Prefixes
from headgate.scheduling.request import Choice, Request


class LeastDecoding(Policy):
    """Least predicted seconds from the end of the prefill to the first token, plus the slowdown of the
    response by requests in flight. Ties are broken at random.

        score = queue + handover of uncached tokens + adapter load + requests in flight * beside * steps

    An endpoint in slow start counts as slower, by its share.
    """

    name = "least-decoding"
    uses_prefix = True

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes

    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        best, least, most_cached, ties = candidates[0], math.inf, 0, 0
        for load, blocks in self._held(request, candidates):
            score, cached = self._weigh(request, load, blocks, now)
            if score < least:
                best, least, most_cached, ties = load, score, cached, 1
            elif score == least:
                ties += 1
                if rng.random() * ties < 1.0:
                    best, most_cached = load, cached
        first_s = self._predicted(request, best, most_cached, now).first_token_s
        return Choice(load=best, cached_tokens=most_cached, first_token_s=first_s)

    def _held(
        self, request: Request, candidates: Sequence[EndpointState]
    ) -> Sequence[tuple[EndpointState, int]]:
        if not request.prefix:
            return [(load, 0) for load in candidates]
        return list(zip(candidates, self._prefixes.matched(request.prefix, candidates), strict=True))

    def _weigh(self, request: Request, load: EndpointState, blocks: int, now: float) -> tuple[float, int]:
        """The endpoint's score, and the cached tokens of the prompt."""
        cached = request.tokens_in(blocks)
        rates = load.estimator.rates
        score = load.estimator.queue_s(now) + rates.pool.handover_s(request.prompt_tokens - cached)
        score += in_flight_tokens(request, rates.pool) * load.requests * rates.token_s
        if not load.has_adapter(request.adapter):
            score += rates.pool.adapter_s
        if load.suspect_until > now:
            score /= load.share(now) or 1.0
        return score, cached

    def _predicted(self, request: Request, load: EndpointState, cached: int, now: float) -> Prediction:
        """The time from the end of the prefill to the first token, in its terms."""
        return load.estimator.predicted_after_handover(
            request.prompt_tokens - cached, now, loads_adapter=not load.has_adapter(request.adapter)
        )

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        if request.prefix:
            self._prefixes.add(request.prefix, choice.load, now)

    def why(self, request: Request, load: EndpointState, choice: Choice, now: float) -> str:
        ((_, blocks),) = self._held(request, [load])
        cached = request.tokens_in(blocks)
        predicted = self._predicted(request, load, cached, now)
        return (
            f"decodes: first token {predicted.first_token_s:.3f} s after the prefill "
            f"({predicted.in_words()}), {cached} of {request.prompt_tokens} tokens cached; "
            f"{load.requests} request{'s' * (load.requests != 1)} in flight"
        )
