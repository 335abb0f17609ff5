"""When an engine runs, starts and stops, and how long it costs."""

from __future__ import annotations

import math


class Uptime:
    """One engine's starts and stops. Times are seconds since the run began."""

    def __init__(self) -> None:
        self.is_running = True
        self.is_starting = False
        self.is_draining = False
        """Whether it serves its requests to their ends, and gets no others."""
        self.starts = 0
        """How often it was started during the run."""
        self.crashes = 0
        self.used_s = 0.0
        """When it was last in use, or started to run."""
        self._changes_s = [0.0]
        """Alternating start and stop times; it costs from each start to the next stop."""

    @property
    def is_wanted(self) -> bool:
        """Whether it runs, or starts, and is to go on."""
        return (self.is_running and not self.is_draining) or self.is_starting

    def up_s(self, lasted_s: float) -> float:
        """How long in a run of `lasted_s` seconds it ran or loaded its model."""
        ends = [*self._changes_s, lasted_s] if len(self._changes_s) % 2 else self._changes_s
        times = [min(time_s, lasted_s) for time_s in ends]
        return math.fsum(until_s - since_s for since_s, until_s in zip(times[::2], times[1::2], strict=True))

    def begin_stopped(self) -> None:
        """It is stopped when the run begins."""
        self.is_running = False
        self._changes_s.clear()

    def begin_start(self, now: float) -> None:
        """It starts to load the model; costs count from now on."""
        self.is_starting = True
        self.starts += 1
        self._changes_s.append(now)

    def end_start(self, now: float) -> None:
        """The model is loaded."""
        self.is_starting, self.is_running = False, True
        self.used_s = now

    def give_up_start(self, now: float) -> None:
        """It stops loading the model."""
        self.is_starting = False
        self._changes_s.append(now)

    def stop(self, now: float) -> None:
        self.is_running = self.is_draining = False
        self._changes_s.append(now)
