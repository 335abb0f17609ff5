"""Sets the number of engines while a fleet runs: some start, some drain and stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.timeline import Timeline


class Scaling(NamedTuple):
    """A controller of the number of engines. The description has as many engines as it may want at most."""

    desired: Callable[[float, Sequence[SimulatedEndpoint]], int]
    """Called with the time and the engines that are wanted, ready or not; returns how many there should be.
    The engines may be read, but not changed.
    """
    cold_start_s: float
    period_s: float = 15.0
    begins_with: int = 1
    """Engines that are ready at the beginning, at least 1."""


class Scaler:
    """Calls the controller, and starts and drains engines. Those that are not ready yet stop first."""

    def __init__(
        self,
        timeline: Timeline,
        endpoints: Sequence[SimulatedEndpoint],
        scaling: Scaling,
        changed: Callable[[], None],
        stopped: Callable[[SimulatedEndpoint], None],
    ) -> None:
        """`changed` is called when other endpoints are ready than before, `stopped` with one that stopped."""
        self._timeline = timeline
        self._endpoints = endpoints
        self._scaling = scaling
        self._changed = changed
        self._stopped = stopped
        for endpoint in endpoints[max(scaling.begins_with, 1) :]:
            endpoint.uptime.begin_stopped()
        timeline.at(0.0, self._pass, is_awaited=False)

    def _pass(self) -> None:
        now = self._timeline.now
        self._stop_drained()
        wanted = [each for each in self._endpoints if each.uptime.is_wanted]
        desired = max(self._scaling.desired(now, wanted), 1)
        stopped = (
            each for each in self._endpoints if not (each.uptime.is_running or each.uptime.is_starting)
        )
        for endpoint, _ in zip(stopped, range(desired - len(wanted)), strict=False):
            endpoint.uptime.begin_start(now)
            begun = endpoint.uptime.starts
            at_s = now + self._scaling.cold_start_s
            self._timeline.at(at_s, partial(self._ready, endpoint, begun), is_awaited=False)
        for _ in range(len(wanted) - desired):
            leaving = min(reversed(wanted), key=lambda each: (each.uptime.is_running, each.load.requests))
            wanted.remove(leaving)
            if leaving.uptime.is_running:
                leaving.uptime.is_draining = True
            else:
                leaving.uptime.give_up_start(now)
        self._stop_drained()
        self._changed()
        self._timeline.at(now + self._scaling.period_s, self._pass, is_awaited=False)

    def _ready(self, endpoint: SimulatedEndpoint, begun: int) -> None:
        if endpoint.uptime.is_starting and endpoint.uptime.starts == begun:
            endpoint.end_start()
            self._changed()

    def _stop_drained(self) -> None:
        for endpoint in self._endpoints:
            if endpoint.uptime.is_draining and endpoint.is_idle:
                endpoint.stop()
                self._stopped(endpoint)
