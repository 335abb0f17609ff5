"""Least outstanding work: the endpoint that owes the fewest tokens gets the next request."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from headgate.fleet import EndpointLoad


def least_work(
    candidates: Sequence[EndpointLoad],
    now: float,
    rng: random.Random,
    tried: Collection[EndpointLoad] = (),
) -> EndpointLoad | None:
    """Picks among the candidates that were not tried yet; ties are broken by `rng`, each equally likely.

    An endpoint that failed a moment ago is picked only when every other was tried or failed as well.
    None means that no candidate is left.
    """
    best: EndpointLoad | None = None
    best_work = 0
    ties = 0
    for load in candidates:
        if load.avoid_until > now or (tried and load in tried):
            continue
        work = load.work_tokens
        if best is None or work < best_work:
            best, best_work, ties = load, work, 1
        elif work == best_work:
            ties += 1
            if rng.random() * ties < 1.0:
                best = load
    return best or _least_recently_failed(candidates, tried)


def _least_recently_failed(
    candidates: Sequence[EndpointLoad], tried: Collection[EndpointLoad]
) -> EndpointLoad | None:
    untried = [load for load in candidates if load not in tried]
    return min(untried, key=lambda load: load.avoid_until, default=None)
