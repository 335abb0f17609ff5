"""The steps of one engine on the timeline, over restarts of its process."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from headgate.simulator.fleet.timeline import STEP_BEGINS, STEP_ENDS, Timeline
from headgate.simulator.model import Engine, EngineConfig, RemoteStore, StepOutcome

STEPS_AT_ONCE = 256


class Stepping:
    """Steps an engine while there is work. Whoever changes the engine calls `follow` afterwards."""

    def __init__(
        self,
        config: EngineConfig,
        store: RemoteStore | None,
        timeline: Timeline,
        stalled_until: Callable[[float], float],
        finished: Callable[[StepOutcome], None],
    ) -> None:
        """`stalled_until` returns until when no step begins at a given time; `finished` gets the outcome of
        each step."""
        self.engine = Engine(config, store)
        self._config = config
        self._store = store
        self._timeline = timeline
        self._stalled_until = stalled_until
        self._finished = finished
        self._begins = False
        self._ends_s: float | None = None
        self._slowdown = 1.0
        self._busy_before_s = 0.0
        self._heard_before_s = -math.inf
        """Both of engines that were replaced."""

    @property
    def busy_s(self) -> float:
        """Total working time of all engines so far."""
        return self._busy_before_s + self.engine.statistics().busy_s_total

    def settled(self) -> Engine:
        """The engine as it is now."""
        self.engine.settle(self._timeline.now)
        self.follow()
        return self.engine

    def heard_at(self) -> float:
        """When a token was last sent."""
        return max(self.settled().last_token_s, self._heard_before_s)

    def slow_down(self, slowdown: float) -> None:
        """Every step takes this many times as long from now on."""
        if slowdown != self._slowdown:
            self._slowdown = slowdown
            self.engine.slow_down(slowdown, self._timeline.now)

    def replace_engine(self) -> Engine:
        """Go on with an engine that has an empty cache; returns the old one."""
        now, old = self._timeline.now, self.engine
        old.settle(now)
        self._busy_before_s = self.busy_s
        self._heard_before_s = max(self._heard_before_s, old.last_token_s)
        self.engine = Engine(self._config, self._store)
        self.engine.slow_down(self._slowdown, now)
        self._ends_s = None
        return old

    def follow(self) -> None:
        """Schedule the start of the engine's next step, or the end of the current one."""
        ends_s = self.engine.step_ends_s
        if ends_s is None:
            if not self._begins:
                self._begins = True
                self._timeline.at(self._timeline.now, self._begin, STEP_BEGINS)
        elif ends_s != self._ends_s:
            self._ends_s = ends_s
            self._timeline.at(ends_s, partial(self._end, ends_s), STEP_ENDS)

    def _begin(self) -> None:
        now = self._timeline.now
        stalled_until = self._stalled_until(now)
        if stalled_until > now:
            self._timeline.at(stalled_until, self._begin, STEP_BEGINS)
            return
        self._begins = False
        if self.engine.step_ends_s is None and self.engine.begin_step(now, most=STEPS_AT_ONCE) is not None:
            self.follow()

    def _end(self, ends_s: float) -> None:
        if ends_s != self._ends_s:
            return  # the steps were cut, and their end was rescheduled
        self._ends_s = None
        self._finished(self.engine.finish_step())
        self.follow()
