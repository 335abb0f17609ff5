"""Which endpoint of a Service gets a request: one after the other, without those that just failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from headgate.routing import Endpoint
from headgate.routing.gateway_api import ServiceEndpoints, ServicePort

REST_S: Final = 5.0
"""How long an endpoint that could not be reached gets no requests while there are others."""


class Balancer:
    """Owned by one process; forgets what is no longer in use."""

    def __init__(self) -> None:
        self._turns: dict[ServicePort, int] = {}
        self._resting_until: dict[Endpoint, float] = {}

    def pick(self, service: ServiceEndpoints, tried: Collection[Endpoint], now: float) -> Endpoint | None:
        """The next endpoint; None if all were tried, or there are none."""
        endpoints = service.endpoints
        count, turn = len(endpoints), self._turns.get(service.key, 0)
        resting = None
        for offset in range(count):
            at = (turn + offset) % count
            endpoint = endpoints[at]
            if endpoint in tried:
                continue
            if self._resting_until.get(endpoint, 0.0) <= now:
                self._turns[service.key] = (at + 1) % count
                return endpoint
            resting = resting or endpoint
        return resting

    def failed(self, endpoint: Endpoint, now: float) -> None:
        """An endpoint could not be reached."""
        self._resting_until[endpoint] = now + REST_S

    def keep(self, services: Iterable[ServiceEndpoints]) -> None:
        """Forget all other Services and their endpoints."""
        kept = {each.key: each for each in services}
        self._turns = {key: turn for key, turn in self._turns.items() if key in kept}
        there = {endpoint for each in kept.values() for endpoint in each.endpoints}
        self._resting_until = {each: at for each, at in self._resting_until.items() if each in there}
