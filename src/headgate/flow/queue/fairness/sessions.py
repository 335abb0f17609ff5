"""Kthena's session boost: requests of recently served sessions go first, while caches hold their prefix.

A flow is a session. The most recently finished sessions come first, then all others in the order of their
heads. After each finished request there may be a grace period in which only boosted requests go, as the same
session may continue.

Grace periods follow one another without end. But no grace period holds a request that has waited for that
long: it goes as soon as there is capacity, before any boosted one. So grace alone delays nobody beyond its
length, and it has no effect in a queue where all wait longer.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from headgate.flow.queue.fairness.fairness import Fairness, Usage
from headgate.flow.queue.fairness.ranking import Ranking
from headgate.flow.queue.flow import Flow
from headgate.flow.queue.settings import SessionSettings


class SessionBoost(Fairness):
    """Requests without a session ("") are never boosted."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._ranking = Ranking()
        self._waiting: dict[str, Flow] = {}
        self._served: OrderedDict[str, int] = OrderedDict()
        """When each session was last served, as a counter; the latest is last."""
        self._ends = 0
        self._grace_until = -math.inf
        self.pauses = settings.grace_s > 0.0

    def joined(self, flow: Flow, now: float) -> None:
        self._waiting[flow.name] = flow
        self.moved(flow, now)

    def next(self, now: float) -> Flow:
        return self._ranking.first()

    def took(self, flow: Flow, work: int, now: float) -> None:
        if flow.members:
            self.moved(flow, now)

    def moved(self, flow: Flow, now: float) -> None:
        self._ranking.put(flow, (-self._served.get(flow.name, 0), flow.head.order))

    def left(self, flow: Flow, now: float) -> None:
        self._ranking.drop(flow)
        del self._waiting[flow.name]

    def served(self, name: str, flow: Flow | None, work: int, usage: Usage, now: float) -> None:
        self._grace_until = now + self._settings.grace_s
        if not name:
            return
        self._ends += 1
        self._served[name] = self._ends
        self._served.move_to_end(name)
        if flow is not None:
            self.moved(flow, now)
        if len(self._served) > self._settings.max_sessions:
            forgotten, _ = self._served.popitem(last=False)
            if forgotten in self._waiting:
                self.moved(self._waiting[forgotten], now)

    def ready_at(self, now: float) -> float:
        first = self._ranking.first()
        if first.name in self._served:
            return -math.inf
        return min(self._grace_until, first.head.arrived + self._settings.grace_s)

    def is_pausing(self, now: float) -> bool:
        return now < self._grace_until

    def standing(self, flow: Flow, now: float) -> str:
        return "boosted" if flow.name in self._served else "not boosted"
