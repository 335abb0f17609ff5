"""Least outstanding work: the endpoint that owes the fewest tokens gets the next request."""

from __future__ import annotations

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
    any_suspect = False
    for load in candidates:
        if load.suspect_until > now:
            any_suspect = True
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
    if any_suspect or (best is not None and best.requests >= max_requests):
        return _looking_closer(candidates, now, rng, tried, max_requests)
    return best


def _looking_closer(
    candidates: Sequence[EndpointLoad],
    now: float,
    rng: random.Random,
    tried: Collection[EndpointLoad],
    max_requests: int,
) -> EndpointLoad | None:
    """The pick where an endpoint of the pool has failed lately, or the one with the least work is full.

    If only endpoints are left that one would rather not ask, a bad try beats none.
    """
    ejected = fleet.ejected(candidates, now)
    left = [load for load in candidates if load.requests < max_requests and load not in tried]
    weighed = []
    for load in left:
        if load in ejected or load.avoided(now):
            continue
        # Ejected by its own account, but not by the pool's: it takes part in full, since it is needed.
        share = load.share(now) or 1.0
        # Few requests find it (which matters while nobody owes anything), and it owes less than others.
        if share == 1.0 or rng.random() < share:
            weighed.append((load.work_tokens / share, rng.random(), load))
    if weighed:
        return min(weighed, key=lambda entry: entry[:2])[2]
    return min(left, key=lambda load: (load in ejected, load.failed_at), default=None)
