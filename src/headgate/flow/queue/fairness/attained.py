"""program-aware-fairness: the flow that was served least, with a bonus for waiting.

    score = 0.8 * (1 - service) + 0.2 * wait        (the greatest is next)

`service` is what the flow's requests have taken when they were over, prompt tokens once and output tokens
twice, of which half is forgotten every 60 s; `wait` is how long its head has waited. Both are between 0, the
least of the flows that wait now, and 1, the most: so each choice looks at all of them, which is O(flows).
"""

from __future__ import annotations

from headgate.flow.queue.fairness.fairness import Fairness, Usage
from headgate.flow.queue.flow import Flow

SERVICE_WEIGHT, WAIT_WEIGHT = 0.8, 0.2
HALF_LIFE_S = 60.0
OUTPUT_WEIGHT = 2
MAX_KNOWN = 4096
"""Flows whose service is remembered; of more, those are forgotten that were served longest ago."""


class LeastAttained(Fairness):
    """Ties go to whoever waits longest."""

    def __init__(self) -> None:
        self._flows: dict[str, Flow] = {}
        self._service: dict[str, tuple[float, float]] = {}
        """What each flow has had, and when that was so; who was served last comes last."""

    def joined(self, flow: Flow, now: float) -> None:
        self._flows[flow.name] = flow

    def next(self, now: float) -> Flow:
        flows = list(self._flows.values())
        if len(flows) == 1:
            return flows[0]
        services = [self._attained(flow.name, now) for flow in flows]
        waits = [now - flow.head.arrived for flow in flows]
        least, most = min(services), max(services)
        shortest, longest = min(waits), max(waits)
        per_token = SERVICE_WEIGHT / (most - least) if most > least else 0.0
        per_s = WAIT_WEIGHT / (longest - shortest) if longest > shortest else 0.0
        scores = [
            (wait * per_s - service * per_token, wait, -flow.head.order)
            for flow, service, wait in zip(flows, services, waits, strict=True)
        ]
        return flows[scores.index(max(scores))]

    def took(self, flow: Flow, work: int, now: float) -> None:
        """What it takes is known when it is over."""

    def left(self, flow: Flow, now: float) -> None:
        del self._flows[flow.name]

    def served(self, name: str, flow: Flow | None, work: int, usage: Usage, now: float) -> None:
        tokens = usage.prompt_tokens + OUTPUT_WEIGHT * usage.output_tokens
        service = self._attained(name, now) + tokens
        self._service.pop(name, None)
        if len(self._service) >= MAX_KNOWN:
            del self._service[next(iter(self._service))]
        self._service[name] = (service, now)

    def standing(self, flow: Flow, now: float) -> str:
        return f"{self._attained(flow.name, now):.0f} tokens attained"

    def _attained(self, name: str, now: float) -> float:
        service, at = self._service.get(name, (0.0, now))
        return float(service * 0.5 ** ((now - at) / HALF_LIFE_S))
