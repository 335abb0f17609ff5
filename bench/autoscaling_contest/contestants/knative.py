"""Knative's pod autoscaler, and AIBrix's two: KPA with its own windows, and APA."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from headgate.simulator.autoscaling import ScaledFleet

TARGET_SHARE = 0.7
DEFAULT_CONCURRENCY = 100.0
UP_RATE, DOWN_RATE = 1000.0, 2.0
PANIC_THRESHOLD = 2.0


def concurrency(fleet: ScaledFleet) -> float:
    return float(sum(each.requests for each in fleet.ready) + len(fleet.held))


class Windows:
    """The means of a metric over a stable and a panic window."""

    def __init__(self, stable_s: float, panic_s: float) -> None:
        self._stable_s = stable_s
        self._panic_s = panic_s
        self._values: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> tuple[float, float]:
        self._values.append((now, value))
        while self._values[0][0] <= now - self._stable_s:
            self._values.popleft()
        panic = [each for at_s, each in self._values if at_s > now - self._panic_s]
        return sum(each for _, each in self._values) / len(self._values), sum(panic) / len(panic)


class Kpa:
    """Concurrency over 60 s and 6 s; above twice the capacity in the short window, it never scales down."""

    def __init__(
        self, target: float, *, period_s: float = 2.0, stable_s: float = 60.0, panic_s: float = 6.0
    ) -> None:
        self.period_s = period_s
        self._target = target
        self._stable_s = stable_s
        self._windows = Windows(stable_s, panic_s)
        self._panics_since: float | None = None
        self._most = 0

    def desired(self, fleet: ScaledFleet) -> int:
        now = fleet.now
        stable, panic = self._windows.add(now, concurrency(fleet))
        ready = max(len(fleet.ready), 1)
        most, least = math.ceil(ready * UP_RATE), math.floor(ready / DOWN_RATE)
        by_stable = min(max(math.ceil(stable / self._target), least), most)
        by_panic = min(max(math.ceil(panic / self._target), least), most)
        if math.ceil(panic / self._target) / ready >= PANIC_THRESHOLD:
            self._panics_since = now
        elif self._panics_since is not None and now > self._panics_since + self._stable_s:
            self._panics_since = None
            self._most = 0
        if self._panics_since is None:
            return by_stable
        self._most = max(self._most, by_panic, by_stable, ready)
        return self._most


class Apa:
    """AIBrix's own: proportional with a tolerance of 10 % either way, at most doubled or halved at once.

    After any change, it waits 300 s before it scales down.
    """

    def __init__(
        self, metric: Callable[[ScaledFleet], float], target: float, *, window_s: float = 180.0
    ) -> None:
        self.period_s = 10.0
        self._metric = metric
        self._target = target
        self._windows = Windows(window_s, 60.0)
        self._recommended: deque[tuple[float, int]] = deque()

    def desired(self, fleet: ScaledFleet) -> int:
        stable, recent = self._windows.add(fleet.now, self._metric(fleet))
        current, ready = fleet.current, max(len(fleet.ready), 1)
        ratio = max(stable, recent) / ready / self._target
        wanted = current
        if ratio > 1.1:
            wanted = min(math.ceil(ready * ratio), math.ceil(ready * 2.0))
        elif ratio < 0.9:
            wanted = max(math.ceil(ready * ratio), math.floor(ready / 2.0))
        self._recommended.append((fleet.now, wanted))
        while self._recommended[0][0] < fleet.now - 300.0:
            self._recommended.popleft()
        if wanted >= current:
            return wanted
        return min(current, max(each for _, each in self._recommended))
