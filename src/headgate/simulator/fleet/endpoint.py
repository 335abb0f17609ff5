"""One simulated engine behind its endpoint: its steps on the timeline, its requests, its faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Protocol

from headgate.fleet import EndpointState
from headgate.simulator.fleet.description import EngineGroup
from headgate.simulator.fleet.stepping import Stepping
from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.fleet.uptime import Uptime
from headgate.simulator.fleet.vitals import Vitals
from headgate.simulator.model import (
    Engine,
    EngineConfig,
    EngineFaults,
    Fault,
    FinishedRequest,
    RefusedError,
    RemoteStore,
    RequestId,
    SimulatedRequest,
    StepOutcome,
)


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


class InFlight:
    """Who waits for the requests of one engine."""

    def __init__(self) -> None:
        self._listeners: dict[RequestId, Listener] = {}
        self._silent: dict[RequestId, float] = {}
        """When each request without a token was sent, oldest first."""

    def add(self, request_id: RequestId, listener: Listener, now: float) -> None:
        self._listeners[request_id] = listener
        self._silent[request_id] = now

    def remove(self, request_id: RequestId) -> bool:
        """Whether it was there."""
        self._silent.pop(request_id, None)
        return self._listeners.pop(request_id, None) is not None

    def tell(self, outcome: StepOutcome) -> None:
        """Call the listeners of a step."""
        for emission in outcome.emitted:
            if not emission.position:
                del self._silent[emission.request_id]
                self._listeners[emission.request_id].first_token()
        for finished in outcome.finished:
            self._listeners.pop(finished.request_id).finished(finished)

    def take_all(self) -> dict[RequestId, Listener]:
        listeners, self._listeners = self._listeners, {}
        self._silent.clear()
        return listeners

    def late(self, now: float, heard_at: float) -> list[Listener]:
        """Listeners without a token for suspiciously long, while no other request got one either."""
        return [
            self._listeners[request_id]
            for request_id, sent_s in self._silent.items()
            if self._listeners[request_id].is_late(now - max(sent_s, heard_at))
        ]

    def silent_since(self, before_s: float) -> int:
        """How many were sent before this time and have no token yet."""
        return sum(1 for _ in takewhile(lambda sent_s: sent_s < before_s, self._silent.values()))


class CurrentFaults:
    """The faults of one engine at the present time of the run."""

    def __init__(self, faults: EngineFaults, timeline: Timeline, rng: random.Random) -> None:
        self._faults = faults
        self._timeline = timeline
        self._rng = rng
        self._was_down = False
        self._had_old_metrics = False

    def __bool__(self) -> bool:
        """Whether there are any during the run."""
        return bool(self._faults)

    @property
    def times_s(self) -> list[float]:
        """When faults begin and end."""
        return self._faults.changes()

    @property
    def is_ready(self) -> bool:
        return self._faults.is_ready(self._timeline.now)

    @property
    def is_down(self) -> bool:
        return self._faults.is_down(self._timeline.now)

    @property
    def is_stopped(self) -> bool:
        """Whether its process is stopped and does nothing."""
        now = self._timeline.now
        return bool(self._faults) and self._faults.stopped_until(now) > now

    @property
    def has_metrics(self) -> bool:
        return self._faults.has_metrics(self._timeline.now)

    @property
    def has_old_metrics(self) -> bool:
        """Whether its metrics page no longer changes."""
        return self._faults.has_old_metrics(self._timeline.now)

    @property
    def slowdown(self) -> float:
        return self._faults.slowdown(self._timeline.now)

    def error(self) -> Fault | None:
        """The error that the next request gets, by chance."""
        return self._faults.error(self._timeline.now, self._rng.random())

    def late_s(self) -> float:
        """How late the next request arrives, by chance."""
        return self._faults.late_s(self._timeline.now, self._rng.random())

    def has_gone_down(self) -> bool:
        """Whether it is down, and was not at the last call."""
        was_down, self._was_down = self._was_down, self.is_down
        return self._was_down and not was_down

    def showed_old_metrics(self) -> bool:
        """Whether its metrics page had stopped changing at the last call."""
        had_old_metrics, self._had_old_metrics = self._had_old_metrics, self.has_old_metrics
        return had_old_metrics


class SimulatedEndpoint:
    """Passes requests to its engine while it can be reached, and reports the result of each."""

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
        self.uptime = Uptime()
        self.vitals = Vitals(config, load, stale_s)
        self.requests = 0
        stalled_until = faults.stalled_until if faults else lambda now: now
        self._stepping = Stepping(config, store, timeline, stalled_until, self._finished)
        self._stepped = stepped
        self._in_flight = InFlight()
        self._watchers: list[Watcher] = []
        self._timeline = timeline
        self._faults = CurrentFaults(faults, timeline, rng)
        for time_s in self._faults.times_s:
            timeline.at(time_s, self._fault_changes)

    @property
    def name(self) -> str:
        return self.load.endpoint.name

    @property
    def engine(self) -> Engine:
        """The engine that runs now; it is another one after a restart."""
        return self._stepping.engine

    @property
    def busy_s(self) -> float:
        """Total working time of its engines, including those that crashed."""
        return self._stepping.busy_s

    def energy_j(self, lasted_s: float) -> float:
        """Energy used by its accelerators in a run of `lasted_s` seconds."""
        more_w = self.config.power_w - self.config.idle_power_w
        return self.config.idle_power_w * self.uptime.up_s(lasted_s) + more_w * self.busy_s

    @property
    def is_ready(self) -> bool:
        """Whether it is in its pool."""
        uptime = self.uptime
        return uptime.is_running and not uptime.is_draining and self._faults.is_ready

    @property
    def is_idle(self) -> bool:
        """Whether it is unused: no requests are booked, and it transfers no cache."""
        return not self.load.requests and not self._watchers

    @property
    def is_down(self) -> bool:
        return self._faults.is_down

    @property
    def changes(self) -> list[float]:
        """When faults begin and end."""
        return self._faults.times_s

    # -- what a client sees

    @property
    def is_stopped(self) -> bool:
        """Whether its process is stopped and does nothing."""
        return self._faults.is_stopped

    @property
    def answers_questions(self) -> bool:
        """Whether it would respond to the gateway's probes now."""
        return self.uptime.is_running and not self.is_down and not self.is_stopped

    def late(self) -> list[Listener]:
        """Listeners without a token for suspiciously long, while no other request here got one either."""
        return self._in_flight.late(self._timeline.now, self.heard_at())

    def requests_silent_for(self, seconds: float) -> int:
        """How many of its requests have waited longer than this for their first token."""
        return self._in_flight.silent_since(self._timeline.now - seconds)

    def heard_at(self) -> float:
        """When it last sent a token of any request."""
        return self._stepping.heard_at()

    # -- requests

    def send(self, request: SimulatedRequest, listener: Listener) -> None:
        """Receive a request; may call `listener` immediately."""
        self.requests += 1
        if not self._faults:
            self._take(request, listener)
            return
        error, late_s = self._faults.error(), self._faults.late_s()
        if self.is_down:
            listener.broken(None)
        elif error is not None and not self.is_stopped:
            listener.responded(error.status, error.rest_s)
        elif late_s:
            self._timeline.at(self._timeline.now + late_s, partial(self._take_late, request, listener))
        else:
            self._take(request, listener)

    def cached_tokens(self, request: SimulatedRequest) -> int:
        """How many prompt tokens its engine would find in its cache now."""
        return self._stepping.settled().cached_tokens(request)

    def cancel(self, request_id: RequestId) -> None:
        """The client no longer waits for a request; no listener is called."""
        if self._in_flight.remove(request_id):
            self.engine.cancel(request_id, self._timeline.now)
            self._stepping.follow()

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """End `watch`; may be called twice."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def release_kv(self, request_id: RequestId) -> None:
        """Free the blocks of a prompt whose cache was transferred."""
        if self.engine.release_kv(request_id, self._timeline.now):
            self._stepping.follow()

    def _take_late(self, request: SimulatedRequest, listener: Listener) -> None:
        if self.is_down:
            listener.broken(None)
        else:
            self._take(request, listener)

    def _take(self, request: SimulatedRequest, listener: Listener) -> None:
        now = self._timeline.now
        try:
            self.engine.submit(request, now)
        except RefusedError:
            listener.refused()
            return
        self._in_flight.add(request.request_id, listener, now)
        self._stepping.follow()

    def _finished(self, outcome: StepOutcome) -> None:
        self.vitals.count(outcome.emitted)
        self._in_flight.tell(outcome)
        if self._stepped is not None:
            self._stepped(self)

    # -- readings

    def read(self, by: int = 0) -> bool:
        """A gateway, given by its number, reads the metrics; returns whether it detects that the engine
        restarted."""
        now = self._timeline.now
        if self.is_down or not self.uptime.is_running or not self._faults.has_metrics:
            self.vitals.missed(now, by)
            return False
        if not self._faults.has_old_metrics:
            self._show()
        return self.vitals.seen(now, by)

    def _show(self) -> None:
        """Update the metrics page to the current values."""
        self.vitals.show(self._stepping.settled().statistics())

    # -- starts and stops

    def end_start(self) -> None:
        """The model is loaded."""
        now = self._timeline.now
        self.uptime.end_start(now)
        self.vitals.forget(now)

    def stop(self) -> None:
        """Stop the process; it is idle. Its cache is lost."""
        now = self._timeline.now
        self.uptime.stop(now)
        self._stepping.replace_engine()
        self.vitals.begin_anew(now)

    # -- faults

    def _fault_changes(self) -> None:
        if self._faults.has_gone_down() and self.uptime.is_running:
            self._crash()
        self._stepping.slow_down(self._faults.slowdown)
        self._stepping.settled()
        if not self._faults.showed_old_metrics():
            self._show()

    def _crash(self) -> None:
        """The process dies: its requests are cut off, and its cache is lost."""
        now = self._timeline.now
        self.uptime.crashes += 1
        died = self._stepping.replace_engine()
        self.vitals.begin_anew(now)
        watchers, self._watchers = self._watchers, []
        for request_id, listener in self._in_flight.take_all().items():
            listener.broken(died.cancel(request_id, now))
        for watcher in watchers:
            watcher.gone()
