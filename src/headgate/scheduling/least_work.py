"""Least outstanding work: the endpoint that owes the fewest tokens gets the next request."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from headgate.fleet import EndpointState
from headgate.scheduling.policy import Policy
from headgate.scheduling.request import Choice, Request


class LeastWork(Policy):
    """Ignores caches: only the work in the ledger counts. Ties are broken at random.

    An endpoint in slow start counts as owing more, by its share.
    """

    name = "least-work"

    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        best, best_work, ties = candidates[0], math.inf, 0
        for load in candidates:
            work = float(load.work_tokens)
            if load.suspect_until > now:
                work /= load.share(now) or 1.0
            if work < best_work:
                best, best_work, ties = load, work, 1
            elif work == best_work:
                ties += 1
                if rng.random() * ties < 1.0:
                    best = load
        return Choice(load=best)

    def why(self, request: Request, load: EndpointState, choice: Choice, now: float) -> str:
        if load is choice.load:
            return "owes the least work"
        if load.work_tokens > choice.load.work_tokens:
            return f"owes more work: {load.work_tokens} tokens, not {choice.load.work_tokens}"
        return "owes as much: which of them is left to chance"
