"""Kthena's fairness scheduling: the flow with the least use in a sliding window.

    usage = token weight * sum of (input weight * prompt + output weight * output tokens)
            + request weight * requests                                       (the least is next)

over the requests that ended in the last `window_s`, in buckets of 1 s. Requests of one flow keep their order;
flows with equal usage go in the order of their heads. Requests without a known flow ("") come last.

Usage belongs to the flow, not to each request at its arrival: so the order is consistent (transitive), and
reacts at once to what happens while requests wait.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from headgate.flow.queue.fairness.fairness import Fairness, Usage
from headgate.flow.queue.fairness.ranking import Ranking
from headgate.flow.queue.flow import Flow
from headgate.flow.queue.settings import WindowSettings

MAX_BUCKETS = 100_000
"""Clients choose flow names: beyond this many buckets, the oldest are dropped early."""


class _Bucket(msgspec.Struct):
    """Use of one flow in one second."""

    second: int
    name: str
    usage: float = 0.0


class WindowedUsage(Fairness):
    """Keeps a bucket for each flow and second with a finished request, within the window and up to
    MAX_BUCKETS."""

    def __init__(self, settings: WindowSettings) -> None:
        self._settings = settings
        self._ranking = Ranking()
        self._waiting: dict[str, Flow] = {}
        self._buckets: deque[_Bucket] = deque()
        self._newest: dict[str, _Bucket] = {}
        self._usage: dict[str, float] = {}

    def usage(self, name: str, now: float) -> float:
        """Use of a flow within the window."""
        self._forget(now)
        return self._usage.get(name, 0.0) if name else math.inf

    def joined(self, flow: Flow, now: float) -> None:
        self._waiting[flow.name] = flow
        self.moved(flow, now)

    def next(self, now: float) -> Flow:
        self._forget(now)
        return self._ranking.first()

    def took(self, flow: Flow, work: int, now: float) -> None:
        if flow.members:
            self.moved(flow, now)

    def moved(self, flow: Flow, now: float) -> None:
        self._ranking.put(flow, (self.usage(flow.name, now), flow.head.order))

    def left(self, flow: Flow, now: float) -> None:
        self._ranking.drop(flow)
        del self._waiting[flow.name]

    def served(self, name: str, flow: Flow | None, work: int, usage: Usage, now: float) -> None:
        self._forget(now)
        if not name:
            return
        chosen = self._settings
        tokens = chosen.input_weight * usage.prompt_tokens + chosen.output_weight * usage.output_tokens
        used = chosen.token_weight * tokens + chosen.request_weight * usage.requests
        bucket = self._newest.get(name)
        if bucket is None or bucket.second != int(now):
            bucket = self._newest[name] = _Bucket(int(now), name)
            self._buckets.append(bucket)
            if len(self._buckets) > MAX_BUCKETS:
                self._forget_oldest()
        bucket.usage += used
        self._usage[name] = self._usage.get(name, 0.0) + used
        if flow is not None:
            self.moved(flow, now)

    def standing(self, flow: Flow, now: float) -> str:
        return f"{self.usage(flow.name, now):.0f} used in {self._settings.window_s:.0f} s"

    def _forget(self, now: float) -> None:
        """Drop buckets that have left the window."""
        oldest = now - self._settings.window_s
        while self._buckets and self._buckets[0].second + 1 <= oldest:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        bucket = self._buckets.popleft()
        name = bucket.name
        if self._newest[name] is bucket:
            del self._newest[name], self._usage[name]  # exactly nothing is left, whatever was rounded
        else:
            self._usage[name] -= bucket.usage
        if name in self._waiting:
            flow = self._waiting[name]
            self._ranking.put(flow, (self._usage.get(name, 0.0), flow.head.order))
