"""The eligible endpoints of a pool, for every policy: not tried yet, with capacity, and healthy."""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Sequence

from headgate import fleet
from headgate.fleet import EndpointState


def candidates(
    pool: Sequence[EndpointState],
    now: float,
    rng: random.Random,
    tried: Collection[EndpointState] = (),
    max_requests: int = sys.maxsize,
) -> Sequence[EndpointState]:
    """The endpoints to choose among; empty if all of them were tried, or have `max_requests` in flight.

    At most a part of the pool, half by default, is excluded for failures. An endpoint that returns from an
    ejection takes part in its share of the picks. While less than half of the pool is healthy, it takes part
    in full, and so do endpoints that were ejected a while ago for error statuses. If only suspicious
    endpoints are left, those that have served since their failure are returned; else only the one with the
    oldest failure: a bad attempt is better than none. Endpoints that asked for no requests are returned only
    if all others are ejected, and not for a request that was rejected already, as an ejected one may be
    healthy again.
    """
    for load in pool:
        if load.suspect_until > now or load.requests >= max_requests:
            break
    else:
        return [load for load in pool if load not in tried] if tried else pool
    return _of_mixed(pool, now, rng, tried, max_requests)


def _of_mixed(
    pool: Sequence[EndpointState],
    now: float,
    rng: random.Random,
    tried: Collection[EndpointState],
    max_requests: int,
) -> list[EndpointState]:
    with_room = [load for load in pool if load.requests < max_requests and load not in tried]
    ejected = fleet.ejected(
        [load for load in pool if load.suspect_until > now], now, fleet.most_ejected(pool)
    )
    fit = sum(load.suspect_until <= now for load in pool)
    is_short = 2 * fit < len(pool)
    chosen = [
        load
        for load in with_room
        if load.suspect_until <= now or _takes_part(load, ejected, now, rng, is_short=is_short)
    ]
    if chosen or not with_room:
        return chosen
    resting = [load for load in with_room if load.resting_until > now and load not in ejected]
    awake = [load for load in with_room if load not in resting]
    if resting and (not awake or (not tried and all(load in ejected for load in awake))):
        return resting
    serving = [load for load in awake if load not in ejected and not load.failures_in_row]
    return serving or [min(awake, key=lambda load: (load in ejected, load.avoided_until))]


def _takes_part(
    load: EndpointState, ejected: Collection[EndpointState], now: float, rng: random.Random, *, is_short: bool
) -> bool:
    """Whether an endpoint that failed recently takes part in this pick. If few are left, a failed attempt
    costs less than crowding those."""
    if load.resting_until > now or load.avoided(now):
        return False
    if is_short and (load.away_until <= now or load.may_be_tried(now)):
        return True
    if load in ejected:
        return False
    # Ejected by its own account, but not within the pool's limit: it is needed, so it takes part in full.
    share = load.share(now) or 1.0
    return share >= 1.0 or rng.random() < share
