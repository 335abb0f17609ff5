"""Kthena's autoscaler with the policy of its documentation: waiting requests, 10 per replica, 10 % tolerance.

It compares the sum of a metric with the target, so the tolerance is that of one replica.
"""

from __future__ import annotations

import math
from collections import deque

from autoscaling_contest.contestants.hpa import waiting
from headgate.simulator.autoscaling import ScaledFleet

TARGET = 10.0
TOLERANCE = 0.1
UP_INSTANCES, UP_PERIOD_S = 1, 15.0
PANIC_PERCENT, PANIC_THRESHOLD, PANIC_HOLD_S, PANIC_PERIOD_S = 150, 1.1, 60.0, 15.0
DOWN_INSTANCES, DOWN_PERIOD_S, DOWN_WINDOW_S = 1, 15.0, 300.0


class Kthena:
    """Passes every 15 s. Its first release skips those in which a Pod is not ready; this one does not."""

    period_s = 15.0

    def __init__(self) -> None:
        self._recommended: deque[tuple[float, int]] = deque()
        self._corrected: deque[tuple[float, int]] = deque()
        self._panics_until = -math.inf

    def desired(self, fleet: ScaledFleet) -> int:
        now, current = fleet.now, fleet.current
        total = waiting(fleet)
        ratio = total / TARGET
        recommended = current if abs(ratio - 1) <= TOLERANCE else max(math.ceil(ratio), 1)
        if recommended >= current * PANIC_THRESHOLD:
            self._panics_until = now + PANIC_HOLD_S
        corrected = self._correct(recommended, current, now)
        for history, value in ((self._recommended, recommended), (self._corrected, corrected)):
            history.append((now, value))
            while history[0][0] < now - DOWN_WINDOW_S:
                history.popleft()
        return corrected

    def _correct(self, recommended: int, current: int, now: float) -> int:
        if now <= self._panics_until:
            past = self._past(PANIC_PERIOD_S, now, current, min)
            return max(min(recommended, past + past * PANIC_PERCENT // 100), current)
        if recommended > current:
            past = self._past(UP_PERIOD_S, now, current, min)
            return max(min(recommended, past + UP_INSTANCES), current)
        most = max([recommended, *(each for _, each in self._recommended)])
        past = self._past(DOWN_PERIOD_S, now, current, max)
        return min(max(most, past - DOWN_INSTANCES), current)

    def _past(self, period_s: float, now: float, current: int, best) -> int:  # type: ignore[no-untyped-def]
        held = [each for at_s, each in self._corrected if at_s >= now - period_s]
        return best([current, *held])
