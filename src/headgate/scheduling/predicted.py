"""The default policy: the earliest first token, with a surcharge for work that a cache could save.

    score = queue + delay + prefill + (price - 1) * uncached tokens * the pool's seconds per token
          + price * adapter load + requests in flight * beside * steps

in seconds, as fleet.Estimator predicts them; the least is picked. A waiting request costs others nothing; one
that prefills, or loads its adapter, takes the endpoint's time from all that come after it. So a second of
that is charged once for itself, and again for each request that it delays: the price is 1 in an idle pool,
where the score is the predicted TTFT, and grows with the queues.

A request's own prefill is charged at this endpoint's rate. What it takes from others is charged at the mean
rate of the pool: on a GPU of half the speed a prompt takes twice the time, but each of those seconds would
have served half as much. Charged at the endpoint's own rate, a slow GPU pays for its speed again with each
waiting request, and idles beside fast ones with queues: eight engines, four of them at half speed, then carry
24 to 31 % less of the Mooncake conversation trace.

Requests in flight make each step longer, by what the estimator has learned: the steps of the prompt and those
of the response. Among endpoints without a queue this term decides. It uses the endpoint's own decode rate:
with the pool's rate, closed loops of long responses on that fleet serve 1 to 2 % less, and without this term
10 to 20 % less.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final

from headgate.fleet import EndpointState, PoolRates
from headgate.scheduling.policy import Policy
from headgate.scheduling.prefixes import Prefixes
from headgate.scheduling.request import Choice, Request

DELAYED_PER_WAITING: Final = 5.0
"""Requests that a prefill delays, per waiting request: several times as many arrive until the queue is empty
again. In an M/G/1 queue the factor is 1 / (1 - utilization), so 5 corresponds to four fifths."""
MAX_DELAYED: Final = 8.0
"""Limits the price during overload: beyond it nearly every prompt goes where its cache is, and the endpoints
with popular prefixes would have the whole queue."""
REMEMBERED = 32
"""Bookings over which the queues are averaged: one burst does not change the price."""
MIN_IN_FLIGHT_TOKENS, MAX_IN_FLIGHT_TOKENS = 150.0, 300.0
"""Bounds for the weight of a request in flight: not more, because caches would be given up for even load, and
not less, because it will need cache space and its length is a guess."""
_NOTHING: Final = repeat(0)
"""Blocks held of a prompt without hashes."""


def in_flight_tokens(request: Request, pool: PoolRates) -> float:
    """Cost of each request in flight for another one on the same endpoint, in tokens of prefill: it lengthens
    each of its steps, of the prompt and of the response."""
    tokens = pool.beside_tokens * request.steps
    if tokens >= MAX_IN_FLIGHT_TOKENS:
        return MAX_IN_FLIGHT_TOKENS
    return tokens if tokens > MIN_IN_FLIGHT_TOKENS else MIN_IN_FLIGHT_TOKENS


class PredictedFirstToken(Policy):
    """Least predicted seconds, with the surcharge for uncached prefill. Ties are broken at random.

    An endpoint in slow start counts as slower, by its share.
    """

    name = "predicted"
    uses_prefix = True
    judges_decoding = False

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes
        self._wait_s = 0.0
        self._pause_s = math.inf
        self.price = 1.0
        """Price of a second of prefill."""

    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        # With 32 candidates this loop is most of a pick, so it uses local names and plain sums; `why`
        # explains the same score. Scores are the times at which a prompt would be done, at its price.
        prefix, prompt_tokens, price = request.prefix, request.prompt_tokens, self.price
        adapter, pool = request.adapter, candidates[0].estimator.rates.pool
        beside_tokens = in_flight_tokens(request, pool)
        delaying_s = (price - 1.0) * pool.token_s
        works = {0: (prompt_tokens, delaying_s * prompt_tokens)}
        held: Iterable[int] = _NOTHING
        if prefix:
            held = self._prefixes.matched(prefix, candidates)
            for blocks in set(held):
                if blocks:
                    tokens = prompt_tokens - request.tokens_in(blocks)
                    works[blocks] = tokens, delaying_s * tokens
        best, best_blocks, best_score, ties = candidates[0], 0, math.inf, 0
        for load, blocks in zip(candidates, held):  # noqa: B905 - strict would reject an infinite iterator
            estimator = load.estimator
            score = estimator.busy_until
            if score > best_score:
                continue
            uncached, work_s = works[blocks]
            if score < now:
                score = now
            if estimator.is_simple_until < now:
                score = now + estimator.queue_s(now, uncached)
            rates = estimator.rates
            score += rates.delay_s + (uncached + beside_tokens * load.requests) * rates.token_s + work_s
            if adapter and not load.has_adapter(adapter):
                score += price * pool.adapter_s
            if score > best_score:
                continue
            if load.suspect_until > now:
                score = now + (score - now) / (load.share(now) or 1.0)
            if score < best_score:
                best, best_blocks, best_score, ties = load, blocks, score, 1
            elif score == best_score:
                ties += 1
                if rng.random() * ties < 1.0:
                    best, best_blocks = load, blocks
        uncached, _ = works[best_blocks]
        loads_adapter = bool(adapter) and not best.has_adapter(adapter)
        first_s = best.estimator.first_token_s(uncached, now, loads_adapter=loads_adapter)
        return Choice(load=best, cached_tokens=prompt_tokens - uncached, first_token_s=first_s)

    def alone_s(self, request: Request, choice: Choice, now: float) -> float:
        """The score of a choice in seconds, without the term of requests in flight."""
        load, uncached = choice.load, request.prompt_tokens - choice.cached_tokens
        estimator, price = load.estimator, self.price
        rates = estimator.rates
        score = estimator.queue_s(now, uncached) + rates.delay_s + uncached * rates.token_s
        score += (price - 1.0) * uncached * rates.pool.token_s
        if request.adapter and not load.has_adapter(request.adapter):
            score += price * rates.pool.adapter_s
        return score

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        if request.prefix:
            self._prefixes.add(request.prefix, choice.load, now)
        # Little's law gives the mean queue length of an endpoint: waiting time over the interval between
        # arrivals.
        wait_s, pause_s, last_s = self._wait_s, self._pause_s, choice.load.estimator.arrivals.pause_s
        wait_s = self._wait_s = wait_s + ((choice.first_token_s or 0.0) - wait_s) / REMEMBERED
        if last_s < math.inf:
            pause_s = self._pause_s = (
                last_s if pause_s == math.inf else pause_s + (last_s - pause_s) / REMEMBERED
            )
        delayed = MAX_DELAYED
        if wait_s * DELAYED_PER_WAITING < pause_s * MAX_DELAYED:
            delayed = DELAYED_PER_WAITING * wait_s / pause_s
        self.price = 1.0 + delayed

    def scores(
        self, request: Request, candidates: Sequence[EndpointState], now: float
    ) -> Mapping[EndpointState, float]:
        """The predicted seconds to the first token, negative."""
        held = self._prefixes.matched(request.prefix, candidates) if request.prefix else _NOTHING
        found: dict[EndpointState, float] = {}
        for load, blocks in zip(candidates, held):  # noqa: B905 - strict would reject an infinite iterator
            uncached = request.prompt_tokens - (request.tokens_in(blocks) if blocks else 0)
            loads_adapter = bool(request.adapter) and not load.has_adapter(request.adapter)
            found[load] = -load.estimator.first_token_s(uncached, now, loads_adapter=loads_adapter)
        return found

    def why(self, request: Request, load: EndpointState, choice: Choice, now: float) -> str:
        """The terms of the score, and whether they include the engine's own figures."""
        estimator, prefix = load.estimator, request.prefix
        cached = request.tokens_in(self._prefixes.matched(prefix, [load])[0]) if prefix else 0
        uncached = request.prompt_tokens - cached
        predicted = estimator.predicted(uncached, now, loads_adapter=not load.has_adapter(request.adapter))
        delaying_s = (self.price - 1.0) * uncached * estimator.rates.pool.token_s
        delaying = f", which delays others by {delaying_s:.3f} s" if delaying_s else ""
        return (
            f"first token in {predicted.first_token_s:.3f} s ({predicted.in_words()}): "
            f"{uncached} prompt tokens to prefill at {1.0 / estimator.rates.token_s:.0f}/s "
            f"({cached} are cached){delaying}; "
            f"{load.requests} request{'s' * (load.requests != 1)} in flight"
            f"{'' if estimator.is_told else ', by the ledger alone'}"
        )
