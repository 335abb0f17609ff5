"""Starts engines while requests are queued, and stops idle ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headgate.simulator.fleet.cold_start import ColdStart
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.timeline import Timeline


class Starts:
    """Manages all groups that have a `ColdStart`; each starts one engine at a time."""

    def __init__(
        self,
        timeline: Timeline,
        endpoints: Sequence[SimulatedEndpoint],
        started: Callable[[], None],
        stopped: Callable[[SimulatedEndpoint], None],
    ) -> None:
        """`started` is called when an engine has loaded its model, `stopped` with an engine that stopped."""
        self._timeline = timeline
        self._started = started
        self._stopped = stopped
        self._groups: dict[str, list[SimulatedEndpoint]] = {}
        for endpoint in endpoints:
            if endpoint.group.cold_start is not None:
                self._groups.setdefault(endpoint.group.name, []).append(endpoint)
                if endpoint.uptime.is_running:
                    self._look_later(endpoint, endpoint.group.cold_start, 0.0)

    def wanted(self) -> None:
        """Requests are queued: start an engine of each group."""
        for endpoints in self._groups.values():
            if any(each.uptime.is_starting for each in endpoints):
                continue
            stopped = next((each for each in endpoints if not each.uptime.is_running), None)
            if stopped is not None and stopped.group.cold_start is not None:
                stopped.uptime.begin_start(self._timeline.now)
                at_s = self._timeline.now + stopped.group.cold_start.takes_s
                self._timeline.at(at_s, partial(self._ready, stopped, stopped.group.cold_start))

    def _ready(self, endpoint: SimulatedEndpoint, settings: ColdStart) -> None:
        endpoint.end_start()
        self._look_later(endpoint, settings, self._timeline.now)
        self._started()

    def _look_later(self, endpoint: SimulatedEndpoint, settings: ColdStart, since_s: float) -> None:
        at_s = since_s + settings.stop_idle_s
        self._timeline.at(at_s, partial(self._look, endpoint, settings), is_awaited=False)

    def _look(self, endpoint: SimulatedEndpoint, settings: ColdStart) -> None:
        """Stop the engine if it was idle for long enough, else check again at the earliest possible time."""
        now = self._timeline.now
        since_s = endpoint.uptime.used_s if endpoint.is_idle else now
        if since_s + settings.stop_idle_s > now:
            self._look_later(endpoint, settings, since_s)
            return
        endpoint.stop()
        self._stopped(endpoint)
