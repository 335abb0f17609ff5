"""program-aware-fairness: the flow with the least service, with a bonus for waiting.

    score = 0.8 * (1 - service) + 0.2 * wait        (the greatest is next)

`service` is what the flow's finished requests have used, prompt tokens once and output tokens twice, with a
half-life of 60 s; `wait` is how long its head has waited. Both are scaled from 0, the least of the flows with
queued requests, to 1, the most, so each choice depends on all of them. Many flows are ranked only ten times a
second; in between, only flows that change are ranked again, on the same scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from headgate.flow.queue.fairness.fairness import Fairness, Usage
from headgate.flow.queue.fairness.ranking import Rank, Ranking
from headgate.flow.queue.flow import Flow

SERVICE_WEIGHT, WAIT_WEIGHT = 0.8, 0.2
HALF_LIFE_S = 60.0
OUTPUT_WEIGHT = 2
MANY = 64
"""Up to this many flows are ranked for each choice."""
RANKED_FOR_S = 0.1
MAX_KNOWN = 4096
"""Flows whose service is remembered; beyond, the least recently served are forgotten."""


class _Scale:
    """Range of service and wait among the flows with queued requests, at one moment."""

    __slots__ = ("_per_s", "_per_token")

    def __init__(self, services: Sequence[float], waits: Sequence[float]) -> None:
        least, most = min(services), max(services)
        shortest, longest = min(waits), max(waits)
        self._per_token = SERVICE_WEIGHT / (most - least) if most > least else 0.0
        self._per_s = WAIT_WEIGHT / (longest - shortest) if longest > shortest else 0.0

    def rank(self, service: float, wait_s: float, order: int) -> Rank:
        """The least is next: constant terms of the score are left out."""
        return (service * self._per_token - wait_s * self._per_s, -wait_s, order)


class LeastAttained(Fairness):
    """The flow with the least attained service is next; of equals, the one that has waited longest."""

    def __init__(self) -> None:
        self._flows: dict[str, Flow] = {}
        self._service: dict[str, tuple[float, float]] = {}
        """Service of each flow, and when it was computed; the most recently served is last."""
        self._ranking = Ranking()
        self._scale = _Scale((0.0,), (0.0,))
        self._ranked_at = -math.inf

    def joined(self, flow: Flow, now: float) -> None:
        self._flows[flow.name] = flow
        self.moved(flow, now)

    def next(self, now: float) -> Flow:
        if len(self._flows) <= MANY or now - self._ranked_at >= RANKED_FOR_S:
            self._rank_all(now)
        return self._ranking.first()

    def took(self, flow: Flow, work: int, now: float) -> None:
        """Rank the flow by its new head; the service is known when the request is over."""
        if flow.members:
            self.moved(flow, now)

    def moved(self, flow: Flow, now: float) -> None:
        service, head = self._attained(flow.name, now), flow.head
        self._ranking.put(flow, self._scale.rank(service, now - head.arrived, head.order))

    def left(self, flow: Flow, now: float) -> None:
        self._ranking.drop(flow)
        del self._flows[flow.name]

    def served(self, name: str, flow: Flow | None, work: int, usage: Usage, now: float) -> None:
        tokens = usage.prompt_tokens + OUTPUT_WEIGHT * usage.output_tokens
        service = self._attained(name, now) + tokens
        self._service.pop(name, None)
        if len(self._service) >= MAX_KNOWN:
            del self._service[next(iter(self._service))]
        self._service[name] = (service, now)
        if flow is not None:
            self.moved(flow, now)

    def standing(self, flow: Flow, now: float) -> str:
        return f"{self._attained(flow.name, now):.0f} tokens attained"

    def _rank_all(self, now: float) -> None:
        self._ranked_at = now
        flows = self._flows.values()
        services = [self._attained(flow.name, now) for flow in flows]
        heads = [flow.head for flow in flows]
        waits = [now - head.arrived for head in heads]
        self._scale = _Scale(services, waits)
        rank = self._scale.rank
        for flow, service, head, wait_s in zip(flows, services, heads, waits, strict=True):
            self._ranking.put(flow, rank(service, wait_s, head.order))

    def _attained(self, name: str, now: float) -> float:
        service, at = self._service.get(name, (0.0, now))
        return float(service * 0.5 ** ((now - at) / HALF_LIFE_S))
