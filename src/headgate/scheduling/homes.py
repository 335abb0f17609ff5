"""Assigns adapters to endpoints of a pool.

Loading an adapter takes long, and evicts another. So its requests go to endpoints that have it, its homes:
one home for few requests, and as many as a busy adapter needs. This is only a preference: if no endpoint
knows the adapter or has a slot for it, all are eligible, because waiting is better than a rejection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import xxhash

from headgate.fleet import EndpointState, adapters

HOME_REQUESTS = 8
"""With this many requests in flight on each of its homes, an adapter may have one more."""
SLACK = 1.25
"""An endpoint with more than this factor of the mean requests is busy: an adapter that may have one more home
gets it then."""
IDLE_S = 60.0
"""After this time without a request, an endpoint is no longer a home of an adapter."""

_NOWHERE: dict[EndpointState, float] = {}


class Homes:
    """The homes of all adapters of a pool, by the requests that this process has sent."""

    def __init__(self) -> None:
        self._used: dict[str, dict[EndpointState, float]] = {}
        """When a request for the adapter last went to the endpoint."""
        self._housed: dict[EndpointState, dict[str, None]] = {}
        """The adapters of an endpoint, least recently used first."""
        self._swept_at = 0.0

    def among(self, adapter: str, candidates: Sequence[EndpointState], now: float) -> Sequence[EndpointState]:
        """The candidates for a request with this adapter; never empty unless `candidates` is. Changes
        nothing."""
        if not candidates:
            return candidates
        used = self._used.get(adapter, _NOWHERE)
        homes: list[EndpointState] = []
        fitting: list[EndpointState] = []
        requests = in_flight = 0
        for load in candidates:
            requests += load.requests
            stands = adapters.place(load, adapter)
            if stands == "loaded":
                in_flight += load.adapters.get(adapter, 0)
                homes.append(load)
            elif stands == "fits":
                is_home = load in used and now - used[load] <= IDLE_S
                (homes if is_home else fitting).append(load)
        busy = SLACK * requests / len(candidates) + 1
        most = 1 + in_flight // HOME_REQUESTS
        chosen = self._chosen(adapter, homes, fitting, busy, most)
        if chosen:
            return chosen
        return [load for load in candidates if adapters.place(load, adapter) != "unknown"] or candidates

    def _chosen(
        self,
        adapter: str,
        homes: list[EndpointState],
        fitting: list[EndpointState],
        busy: float,
        most: int,
    ) -> list[EndpointState]:
        """At most `most` homes, those that are not busy first; and one more, if all are busy and the limit
        allows it."""
        if len(homes) > 1:
            homes.sort(key=lambda load: (load.requests > busy, -_rank(adapter, load)))
        may_grow = len(homes) < most and (not homes or homes[0].requests > busy)
        if may_grow and fitting:
            homes.append(max(fitting, key=lambda load: self._suits(adapter, load, busy)))
        return homes[:most]

    def _suits(self, adapter: str, load: EndpointState, busy: float) -> tuple[bool, bool, float]:
        """Sort key for a new home: not busy, a free slot, and the rank by the adapter's name, so that all
        gateways agree."""
        limit = load.reading.max_adapters if load.reading is not None else None
        present = adapters.in_use(load) | self._housed.get(load, {}).keys()
        is_free = limit is None or len(present) < limit
        return load.requests <= busy, is_free, _rank(adapter, load, others=len(present))

    def booked(self, adapter: str, load: EndpointState, now: float) -> None:
        """Record that a request for the adapter was sent to the endpoint."""
        if now - self._swept_at > IDLE_S:
            self._sweep(now)
        self._used.setdefault(adapter, {})[load] = now
        housed = self._housed.setdefault(load, {})
        housed.pop(adapter, None)
        housed[adapter] = None
        limit = load.reading.max_adapters if load.reading is not None else None
        while limit is not None and len(housed) > max(limit, 1):
            self._leave(next(iter(housed)), load)  # the engine evicts it too

    def of(self, adapter: str) -> list[EndpointState]:
        """The homes of an adapter, by the requests sent."""
        return list(self._used.get(adapter, ()))

    def _sweep(self, now: float) -> None:
        self._swept_at = now
        idle = [
            (adapter, load)
            for adapter, used in self._used.items()
            for load, at in used.items()
            if now - at > IDLE_S
        ]
        for adapter, load in idle:
            self._leave(adapter, load)

    def _leave(self, adapter: str, load: EndpointState) -> None:
        housed, used = self._housed[load], self._used[adapter]
        del housed[adapter], used[load]
        if not housed:
            del self._housed[load]
        if not used:
            del self._used[adapter]


def _rank(adapter: str, load: EndpointState, others: int = 0) -> float:
    """Rendezvous hashing: each adapter ranks endpoints in its own order, the same in all gateways.

    Weighted by the number of other adapters on an endpoint: those with few rank first more often.
    """
    drawn = (xxhash.xxh3_64_intdigest(f"{adapter}\0{load.endpoint.name}".encode()) + 1) / (2**64 + 1)
    return -1.0 / (math.log(drawn) * (1 + others))
