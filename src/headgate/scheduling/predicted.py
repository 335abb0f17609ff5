"""The default policy: the endpoint that is predicted to send the first token soonest, with some loyalty to
the one that holds the prompt's beginning in its cache.

    score = queue + uncached prefill + delay, in seconds (fleet.Estimator), less what a cache is worth keeping
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from headgate.fleet import EndpointLoad
from headgate.scheduling.policy import Choice, Policy
from headgate.scheduling.request import Request

STICKINESS_S = 0.5
"""How much later a first token may come for the sake of the cache: what is prefilled anew somewhere else
takes away from all that come after it, and evicts what another would have used."""


class Prefixes(Protocol):
    """What is believed of the endpoints' caches."""

    def matched(self, prefix: Sequence[int], loads: Sequence[EndpointLoad]) -> list[int]: ...
    def add(self, prefix: Sequence[int], load: EndpointLoad, now: float) -> None: ...


class PredictedFirstToken(Policy):
    """Least predicted TTFT with stickiness. Ties are broken by chance.

    One that returns from an ejection counts as slower than it is, by its share.
    """

    uses_prefix = True
    judges_decoding = False

    def __init__(self, prefixes: Prefixes, stickiness_s: float = STICKINESS_S) -> None:
        self._prefixes = prefixes
        self.stickiness_s = stickiness_s

    def pick(
        self, request: Request, candidates: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> Choice | None:
        predicted = [
            self._predict(request, load, blocks, now) for load, blocks in self._held(request, candidates)
        ]
        soonest = min(first_s for _, first_s in predicted)
        near = [each for each in predicted if each[1] <= soonest + self.stickiness_s]
        most = max(cached for cached, _ in near)
        near = [each for each in near if each[0] == most]
        best = min(first_s for _, first_s in near)
        ties = [at for at, each in enumerate(predicted) if each == (most, best)]
        chosen = ties[0] if len(ties) == 1 else rng.choice(ties)
        return Choice(load=candidates[chosen], cached_tokens=most, first_token_s=best)

    def _held(
        self, request: Request, candidates: Sequence[EndpointLoad]
    ) -> Sequence[tuple[EndpointLoad, int]]:
        if not request.prefix:
            return [(load, 0) for load in candidates]
        return list(zip(candidates, self._prefixes.matched(request.prefix, candidates), strict=True))

    def _predict(self, request: Request, load: EndpointLoad, blocks: int, now: float) -> tuple[int, float]:
        """Cached tokens, and seconds until the first token."""
        cached = request.tokens_in(blocks)
        first_s = load.estimator.first_token_s(request.prompt_tokens - cached, now)
        if load.suspect_until > now:
            first_s /= load.share(now) or 1.0
        return cached, first_s

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        if request.prefix:
            self._prefixes.add(request.prefix, choice.load, now)

    def why(self, request: Request, load: EndpointLoad, choice: Choice, now: float) -> str:
        ((_, blocks),) = self._held(request, [load])
        cached, first_s = self._predict(request, load, blocks, now)
        queue_s = load.estimator.queue_s(now)
        return (
            f"first token in {first_s:.3f} s: queue {queue_s:.3f} s, "
            f"{cached} of {request.prompt_tokens} tokens cached"
        )
