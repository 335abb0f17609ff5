"""Least outstanding work: the endpoint that owes the fewest tokens gets the next request."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Collection, Sequence

from headgate import fleet
from headgate.fleet import EndpointLoad


def least_work(
    candidates: Sequence[EndpointLoad],
    now: float,
    rng: random.Random,
    tried: Collection[EndpointLoad] = (),
    max_requests: int = sys.maxsize,
) -> EndpointLoad | None:
    """Picks among the candidates that were not tried yet; ties are broken by `rng`, each equally likely.

    None means that no candidate is left: all were tried, or have `max_requests` in flight. `candidates`
    is the whole pool, of which never more than half is passed over for its failures.
    """
    best: EndpointLoad | None = None
    best_work = 0
    ties = 0
    suspects: list[EndpointLoad] | None = None
    for load in candidates:
        if load.suspect_until > now:
            if suspects is None:
                suspects = []
            suspects.append(load)
            continue
        if tried and load in tried:
            continue
        work = load.work_tokens
        if best is None or work < best_work:
            best, best_work, ties = load, work, 1
        elif work == best_work:
            ties += 1
            if rng.random() * ties < 1.0:
                best = load
    if best is not None and best.requests >= max_requests:
        room = [load for load in candidates if load.requests < max_requests and load.suspect_until <= now]
        best = least_work(room, now, rng, tried)
    if suspects is None:
        return best
    ejected = fleet.ejected(suspects, now, most=len(candidates) // 2)
    left = [load for load in suspects if load.requests < max_requests and load not in tried]
    return _or_a_suspect(best, ties, left, ejected, now, rng)


def _or_a_suspect(
    best: EndpointLoad | None,
    ties: int,
    suspects: Sequence[EndpointLoad],
    ejected: Collection[EndpointLoad],
    now: float,
    rng: random.Random,
) -> EndpointLoad | None:
    """The best of the pool's endpoints, once those that failed lately are weighed too.

    If only endpoints are left that one would rather not ask, a bad try beats none.
    """
    best_work: float = best.work_tokens if best is not None else math.inf
    for load in suspects:
        if load in ejected or load.avoided(now):
            continue
        # Ejected by its own account, but not by the pool's: it takes part in full, since it is needed.
        share = load.share(now) or 1.0
        # Few requests find it (which matters while nobody owes anything), and it owes less than others.
        if share < 1.0 and rng.random() >= share:
            continue
        work = load.work_tokens / share
        if work < best_work:
            best, best_work, ties = load, work, 1
        elif work == best_work:
            ties += 1
            if rng.random() * ties < 1.0:
                best = load
    return best or min(suspects, key=lambda load: (load in ejected, load.failed_at), default=None)
