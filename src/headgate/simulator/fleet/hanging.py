"""Endpoints that take requests and answer none, found as the gateway finds them."""

from __future__ import annotations

from collections.abc import Sequence

from headgate import fleet
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.timeline import Timeline

EVERY_S = 1.0
"""How often the gateway looks."""


class HangWatch:
    """Looks at all endpoints now and then, for as long as anything else goes on."""

    def __init__(self, timeline: Timeline, endpoints: Sequence[SimulatedEndpoint]) -> None:
        self._timeline = timeline
        self._endpoints = endpoints

    def begin(self) -> None:
        self._timeline.at(self._timeline.now + EVERY_S, self._look, is_awaited=False)

    def _look(self) -> None:
        now = self._timeline.now
        for endpoint in self._endpoints:
            endpoint.load.hanging = endpoint.requests_silent_for(endpoint.load.policy.hang_s)
        if any(each.load.hanging >= each.load.policy.hang_requests for each in self._endpoints):
            # Rare, and the reason why nobody notes each token.
            for endpoint in self._endpoints:
                endpoint.load.heard_at = endpoint.heard_at()
            pool = [endpoint.load for endpoint in self._endpoints if endpoint.is_ready]
            for load in fleet.hung(pool, now):
                load.hangs(now)
        self.begin()
