"""Detects endpoints that accept requests but never respond, as the gateway does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate import fleet
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.timeline import Timeline

EVERY_S = 1.0
"""How often the gateway checks."""
UNANSWERED_S = 1.0
"""A probe without a response after this long counts as unanswered."""


class HangWatch:
    """Checks all endpoints periodically while anything else is scheduled."""

    def __init__(
        self,
        timeline: Timeline,
        endpoints: Sequence[SimulatedEndpoint],
        ejected: Callable[[], None],
        *,
        asks_questions: bool,
    ) -> None:
        """`ejected` is called when an endpoint gets no requests for a while. `asks_questions`: whether the
        gateway sends probes, which it only does if it reads metrics."""
        self._timeline = timeline
        self._endpoints = endpoints
        self._ejected = ejected
        self._asks_questions = asks_questions
        self._asked_s: dict[SimulatedEndpoint, float] = {}
        """When each endpoint was sent a probe that it has not answered since."""

    def begin(self) -> None:
        self._timeline.at(self._timeline.now + EVERY_S, self._look, is_awaited=False)

    def _look(self) -> None:
        now = self._timeline.now
        for endpoint in self._endpoints:
            endpoint.load.hanging = endpoint.requests_silent_for(endpoint.load.policy.hang_s)
        if any(each.load.hanging >= each.load.policy.hang_requests for each in self._endpoints):
            # Rare, which is why it is cheaper to compute this here than to record it for each token.
            for endpoint in self._endpoints:
                endpoint.load.heard_at = endpoint.heard_at()
            pool = [endpoint.load for endpoint in self._endpoints if endpoint.is_ready]
            for load in fleet.hung(pool, now):
                load.hangs(now)
                self._ejected()
        if self._asks_questions:
            for endpoint in self._endpoints:
                self._look_for_stop(endpoint, now)
        self.begin()

    def _look_for_stop(self, endpoint: SimulatedEndpoint, now: float) -> None:
        """Move late requests away from an endpoint that does not respond to probes."""
        late = endpoint.late() if not endpoint.answers_questions else []
        if not late:
            self._asked_s.pop(endpoint, None)
            return
        is_heard_of = any(
            other.answers_questions and other.load.ejection.until <= now
            for other in self._endpoints
            if other is not endpoint
        )
        if now - self._asked_s.setdefault(endpoint, now) < UNANSWERED_S or not is_heard_of:
            return
        if endpoint.load.ejection.until <= now:
            endpoint.load.hangs(now)
            self._ejected()
        for listener in late:
            listener.leave()
