"""One simulated engine behind its endpoint: its steps on the timeline, its requests, its faults."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Protocol

from headgate.fleet import EndpointState
from headgate.simulator.fleet.description import EngineGroup
from headgate.simulator.fleet.timeline import STEP_BEGINS, STEP_ENDS, Timeline
from headgate.simulator.fleet.vitals import Vitals
from headgate.simulator.model import (
    Engine,
    EngineConfig,
    EngineFaults,
    FinishedRequest,
    RefusedError,
    RemoteStore,
    RequestId,
    SimulatedRequest,
    StepOutcome,
)

STEPS_AT_ONCE = 256


class Listener(Protocol):
    """The sender of a request: called for first tokens, then for one of the other events."""

    def first_token(self) -> None: ...
    def finished(self, finished: FinishedRequest) -> None: ...

    def refused(self) -> None:
        """The engine rejects the request, as any other engine would."""

    def responded(self, status: int, rest_s: float | None) -> None:
        """The engine returned an error; `rest_s` is its Retry-After."""

    def broken(self, cut_off: FinishedRequest | None) -> None:
        """The endpoint is unreachable or gone; `cut_off` is the progress of the request, if any."""

    def is_late(self, silent_s: float) -> bool:
        """Whether this long without a token is suspicious."""

    def leave(self) -> None:
        """The endpoint does not respond: another may be tried instead."""


class Watcher(Protocol):
    """Depends on an endpoint without having a request there."""

    def gone(self) -> None:
        """The endpoint has died."""


class SimulatedEndpoint:
    """Steps its engine while there is work, and reports the result of each request."""

    def __init__(
        self,
        group: EngineGroup,
        config: EngineConfig,
        load: EndpointState,
        timeline: Timeline,
        faults: EngineFaults,
        rng: random.Random,
        stepped: Callable[[SimulatedEndpoint], None] | None,
        stale_s: float,
        store: RemoteStore | None,
    ) -> None:
        self.group = group
        self.config = config
        self.load = load
        self._store = store
        self.engine = Engine(config, store)
        self.vitals = Vitals(config, load, stale_s)
        self._stale_s = stale_s
        self.requests = 0
        self.crashes = 0
        self.starts = 0
        """How often it was started during the run."""
        self.used_s = 0.0
        """When it was last in use, or started to run."""
        self.is_running = True
        self.is_starting = False
        self.is_draining = False
        """Whether it serves its requests to their ends, and gets no others."""
        self._up_s = [0.0]
        """Alternating start and stop times; it costs from each start to the next stop."""
        self._timeline = timeline
        self._faults = faults
        self._rng = rng
        self._stepped = stepped
        self._listeners: dict[RequestId, Listener] = {}
        self._silent: dict[RequestId, float] = {}
        """When each request without a token was sent to it, oldest first."""
        self._heard_before_s = -math.inf  # of engines that have crashed
        self._begins = False
        self._ends_s: float | None = None
        self._slowdown = 1.0
        self._was_down = False
        self._had_old_metrics = False
        self._busy_before_s = 0.0
        self._watchers: list[Watcher] = []
        self.changes = faults.changes()
        """When faults begin and end."""
        for time_s in self.changes:
            timeline.at(time_s, self._fault_changes)

    @property
    def name(self) -> str:
        return self.load.endpoint.name

    @property
    def busy_s(self) -> float:
        """Total working time of its engines, including those that crashed."""
        return self._busy_before_s + self.engine.statistics().busy_s_total

    def energy_j(self, lasted_s: float) -> float:
        """Energy used by its accelerators in a run of `lasted_s` seconds."""
        more_w = self.config.power_w - self.config.idle_power_w
        return self.config.idle_power_w * self.up_s(lasted_s) + more_w * self.busy_s

    def up_s(self, lasted_s: float) -> float:
        """How long in a run of `lasted_s` seconds it ran or loaded its model."""
        ends = [*self._up_s, lasted_s] if len(self._up_s) % 2 else self._up_s
        times = [min(time_s, lasted_s) for time_s in ends]
        return math.fsum(until_s - since_s for since_s, until_s in zip(times[::2], times[1::2], strict=True))

    @property
    def is_ready(self) -> bool:
        """Whether it is in its pool."""
        return self.is_running and not self.is_draining and self._faults.is_ready(self._timeline.now)

    @property
    def is_wanted(self) -> bool:
        """Whether it runs, or starts, and is to go on."""
        return (self.is_running and not self.is_draining) or self.is_starting

    @property
    def is_idle(self) -> bool:
        """Whether it is unused: no requests are booked, and it transfers no cache."""
        return not self.load.requests and not self._watchers

    @property
    def is_down(self) -> bool:
        return self._faults.is_down(self._timeline.now)

    # -- what a client sees

    @property
    def is_stopped(self) -> bool:
        """Whether its process is stopped and does nothing."""
        now = self._timeline.now
        return bool(self._faults) and self._faults.stopped_until(now) > now

    @property
    def answers_questions(self) -> bool:
        """Whether it would respond to the gateway's probes now."""
        return self.is_running and not self.is_down and not self.is_stopped

    def late(self) -> list[Listener]:
        """Listeners without a token for suspiciously long, while no other request here got one either."""
        now, heard_at = self._timeline.now, self.heard_at()
        return [
            self._listeners[request_id]
            for request_id, sent_s in self._silent.items()
            if self._listeners[request_id].is_late(now - max(sent_s, heard_at))
        ]

    def requests_silent_for(self, seconds: float) -> int:
        """How many of its requests have waited longer than this for their first token."""
        before_s = self._timeline.now - seconds
        return sum(1 for _ in takewhile(lambda sent_s: sent_s < before_s, self._silent.values()))

    def heard_at(self) -> float:
        """When it last sent a token of any request."""
        self.engine.settle(self._timeline.now)
        self._follow_engine()
        return max(self.engine.last_token_s, self._heard_before_s)

    # -- requests

    def send(self, request: SimulatedRequest, listener: Listener) -> None:
        """Receive a request; may call `listener` immediately."""
        self.requests += 1
        if not self._faults:
            self._take(request, listener)
            return
        now = self._timeline.now
        error = self._faults.error(now, self._rng.random())
        late_s = self._faults.late_s(now, self._rng.random())
        if self.is_down:
            listener.broken(None)
        elif error is not None and not self.is_stopped:
            listener.responded(error.status, error.rest_s)
        elif late_s:
            self._timeline.at(now + late_s, partial(self._take_late, request, listener))
        else:
            self._take(request, listener)

    def cached_tokens(self, request: SimulatedRequest) -> int:
        """How many prompt tokens its engine would find in its cache now."""
        self.engine.settle(self._timeline.now)
        self._follow_engine()
        return self.engine.cached_tokens(request)

    def cancel(self, request_id: RequestId) -> None:
        """The client no longer waits for a request; no listener is called."""
        if self._listeners.pop(request_id, None) is not None:
            self._silent.pop(request_id, None)
            self.engine.cancel(request_id, self._timeline.now)
            self._follow_engine()

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """End `watch`; may be called twice."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def release_kv(self, request_id: RequestId) -> None:
        """Free the blocks of a prompt whose cache was transferred."""
        if self.engine.release_kv(request_id, self._timeline.now):
            self._follow_engine()

    def _take_late(self, request: SimulatedRequest, listener: Listener) -> None:
        if self.is_down:
            listener.broken(None)
        else:
            self._take(request, listener)

    def _take(self, request: SimulatedRequest, listener: Listener) -> None:
        try:
            self.engine.submit(request, self._timeline.now)
        except RefusedError:
            listener.refused()
            return
        self._listeners[request.request_id] = listener
        self._silent[request.request_id] = self._timeline.now
        self._follow_engine()

    # -- readings

    def read(self) -> bool:
        """The gateway reads the metrics; returns whether it detects that the engine restarted."""
        now = self._timeline.now
        if self.is_down or not self.is_running or not self._faults.has_metrics(now):
            self.vitals.missed(now)
            return False
        if not self._faults.has_old_metrics(now):
            self._show()
        return self.vitals.seen(now)

    def _show(self) -> None:
        """Update the metrics page to the current values."""
        self.engine.settle(self._timeline.now)
        self._follow_engine()
        self.vitals.show(self.engine.statistics())

    # -- starts and stops

    def begin_start(self) -> None:
        """Start to load the model; costs count from now on."""
        self.is_starting = True
        self.starts += 1
        self._up_s.append(self._timeline.now)

    def end_start(self) -> None:
        """The model is loaded."""
        self.is_starting, self.is_running = False, True
        self.used_s = self._timeline.now
        self.vitals = Vitals(self.config, self.load, self._stale_s)
        self.vitals.begin_anew(self.used_s)

    def give_up_start(self) -> None:
        """Stop to load the model."""
        self.is_starting = False
        self._up_s.append(self._timeline.now)

    def stop(self) -> None:
        """Stop the process; it is idle. Its cache is lost."""
        self.is_running = False
        self._up_s.append(self._timeline.now)
        self._replace_engine()

    def begin_stopped(self) -> None:
        """The endpoint is stopped when the run begins."""
        self.is_running = False
        self._up_s.clear()

    def _replace_engine(self) -> None:
        """Replace the engine with one that has an empty cache."""
        now = self._timeline.now
        self.engine.settle(now)
        self._busy_before_s = self.busy_s
        self._heard_before_s = max(self._heard_before_s, self.engine.last_token_s)
        self.engine = Engine(self.config, self._store)
        self.engine.slow_down(self._slowdown, now)
        self._ends_s = None
        self.vitals.begin_anew(now)

    # -- steps

    def _follow_engine(self) -> None:
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
        stalled_until = self._faults.stalled_until(now) if self._faults else now
        if stalled_until > now:
            self._timeline.at(stalled_until, self._begin, STEP_BEGINS)
            return
        self._begins = False
        if self.engine.step_ends_s is None and self.engine.begin_step(now, most=STEPS_AT_ONCE) is not None:
            self._follow_engine()

    def _end(self, ends_s: float) -> None:
        if ends_s != self._ends_s:
            return  # the steps were cut, and their end was rescheduled
        self._ends_s = None
        outcome = self.engine.finish_step()
        self._tell(outcome)
        if self._stepped is not None:
            self._stepped(self)
        self._follow_engine()

    def _tell(self, outcome: StepOutcome) -> None:
        self.vitals.count(outcome.emitted)
        for emission in outcome.emitted:
            if not emission.position:
                del self._silent[emission.request_id]
                self._listeners[emission.request_id].first_token()
        for finished in outcome.finished:
            self._listeners.pop(finished.request_id).finished(finished)

    # -- faults

    def _fault_changes(self) -> None:
        now = self._timeline.now
        if self._faults.is_down(now) and not self._was_down and self.is_running:
            self._crash()
        self._was_down = self._faults.is_down(now)
        slowdown = self._faults.slowdown(now)
        if slowdown != self._slowdown:
            self._slowdown = slowdown
            self.engine.slow_down(slowdown, now)
        self.engine.settle(now)
        self._follow_engine()
        if not self._had_old_metrics:
            self._show()
        self._had_old_metrics = self._faults.has_old_metrics(now)

    def _crash(self) -> None:
        """The process dies: its requests are cut off, and its cache is lost."""
        now = self._timeline.now
        self.crashes += 1
        engine = self.engine
        self._replace_engine()
        self._silent.clear()
        listeners, self._listeners = self._listeners, {}
        watchers, self._watchers = self._watchers, []
        for request_id, listener in listeners.items():
            listener.broken(engine.cancel(request_id, now))
        for watcher in watchers:
            watcher.gone()
