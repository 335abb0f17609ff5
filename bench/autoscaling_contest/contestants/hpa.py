"""Kubernetes' HorizontalPodAutoscaler and KEDA, which drives one.

Every 15 s, desired = ceil(replicas * metric / target) with a tolerance of 10 %; by default, it adds 4 Pods or
100 % per 15 s at once, and removes all that no recommendation of the last 300 s wants.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from headgate.simulator.autoscaling import Replica, ScaledFleet

TOLERANCE = 0.1
UP_PODS, UP_SHARE = 4, 1.0
DOWN_WINDOW_S = 300.0
GPU_TARGET = 0.8
"""Share of time in which a GPU works."""
QUEUE_TARGET = 5.0
"""Waiting requests per replica, as in the recipe of the vLLM production stack."""


class Behavior:
    """The default behaviour: the window for scaling down, and the limits for scaling up."""

    def __init__(self, down_window_s: float = DOWN_WINDOW_S) -> None:
        self._down_window_s = down_window_s
        self._recommended: deque[tuple[float, int]] = deque()

    def bound(self, recommended: int, current: int, now: float) -> int:
        self._recommended.append((now, recommended))
        while self._recommended[0][0] < now - self._down_window_s:
            self._recommended.popleft()
        if recommended > current:
            return min(recommended, max(current + UP_PODS, math.ceil(current * (1 + UP_SHARE))))
        return min(current, max(wanted for _, wanted in self._recommended))


class PodsMetric:
    """A metric of Pods, by its mean: Pods that are not ready count as idle when it is too high."""

    def __init__(
        self,
        metric: Callable[[Replica], float],
        target: float,
        *,
        period_s: float = 15.0,
        behavior: Behavior | None = None,
    ) -> None:
        self.period_s = period_s
        self._metric = metric
        self._target = target
        self._behavior = behavior or Behavior()

    def desired(self, fleet: ScaledFleet) -> int:
        values = [self._metric(each) for each in fleet.ready]
        recommended = by_ratio(values, len(fleet.starting), self._target)
        return self._behavior.bound(recommended, fleet.current, fleet.now)


def by_ratio(values: Sequence[float], unready: int, target: float) -> int:
    """The recommendation for ready Pods with these values, and others that are not ready."""
    current = len(values) + unready
    if not values:
        return current
    ratio = sum(values) / len(values) / target
    count = len(values)
    if ratio > 1 and unready:
        count = current
        with_unready = sum(values) / count / target
        if with_unready <= 1 + TOLERANCE:
            return current
        ratio = with_unready
    if abs(ratio - 1) <= TOLERANCE:
        return current
    wanted = math.ceil(ratio * count)
    return current if ratio > 1 and wanted < current else wanted


class BusyShare:
    """The share of time that each replica worked since the last look at it."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}

    def __call__(self, replica: Replica) -> float:
        at_s, busy_s = self._seen.get(replica.name, (replica.at - 1.0, replica.busy_s - 1.0))
        self._seen[replica.name] = (replica.at, replica.busy_s)
        return (replica.busy_s - busy_s) / (replica.at - at_s) if replica.at > at_s else 1.0


class Total:
    """A metric of the whole target, with a target per replica: AverageValue of an external metric."""

    def __init__(
        self,
        metrics: Sequence[tuple[Callable[[ScaledFleet], float], float]],
        *,
        reads_every_s: float = 15.0,
    ) -> None:
        self.period_s = 15.0
        self._metrics = metrics
        self._reads_every_s = reads_every_s
        self._read_s = -math.inf
        self._values: list[float] = []
        self._behavior = Behavior()

    def desired(self, fleet: ScaledFleet) -> int:
        if fleet.now >= self._read_s + self._reads_every_s - 1e-9:
            self._read_s = fleet.now
            self._values = [metric(fleet) for metric, _ in self._metrics]
        wanted = [
            by_average(value, target, fleet.current)
            for value, (_, target) in zip(self._values, self._metrics, strict=True)
        ]
        return self._behavior.bound(max(wanted), fleet.current, fleet.now)


def by_average(value: float, target: float, current: int) -> int:
    """The recommendation for a total."""
    if current and abs(value / (target * current) - 1) <= TOLERANCE:
        return current
    return math.ceil(value / target)


def waiting(fleet: ScaledFleet) -> float:
    return float(sum(each.waiting for each in fleet.ready) + len(fleet.held))


def kv_usage(fleet: ScaledFleet) -> float:
    return sum(each.kv_usage for each in fleet.ready)


def on_utilisation() -> PodsMetric:
    return PodsMetric(BusyShare(), GPU_TARGET)


def on_queue() -> PodsMetric:
    return PodsMetric(lambda each: float(each.waiting), QUEUE_TARGET)


def on_concurrency(target: float) -> PodsMetric:
    """With a target that was measured."""
    return PodsMetric(lambda each: float(each.requests), target)


def keda() -> Total:
    """Its defaults: it polls every 30 s. Triggers for queue and KV cache, as in its recipes for LLMs."""
    return Total([(waiting, QUEUE_TARGET), (kv_usage, 0.8)], reads_every_s=30.0)
