"""round-robin-fairness-policy: one request of each flow in turn, ordered by name."""

from __future__ import annotations

import bisect

from headgate.flow.queue.fairness.fairness import Fairness
from headgate.flow.queue.flow import Flow


class RoundRobin(Fairness):
    """Shares requests regardless of size, without weights, as llm-d's policy does."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._flows: dict[str, Flow] = {}
        self._last = ""

    def joined(self, flow: Flow, now: float) -> None:
        bisect.insort(self._names, flow.name)
        self._flows[flow.name] = flow

    def next(self, now: float) -> Flow:
        at = bisect.bisect_right(self._names, self._last) % len(self._names)
        return self._flows[self._names[at]]

    def took(self, flow: Flow, work: int, now: float) -> None:
        self._last = flow.name

    def left(self, flow: Flow, now: float) -> None:
        del self._names[bisect.bisect_left(self._names, flow.name)]
        del self._flows[flow.name]

    def standing(self, flow: Flow, now: float) -> str:
        at = bisect.bisect_right(self._names, self._last)
        turns = (self._names.index(flow.name) - at) % len(self._names)
        return f"after {turns} others"
