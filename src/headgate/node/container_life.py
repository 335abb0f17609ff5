"""The life of one container: its runs, their ends, and the waits between them.

Part of the state machine of `pod_life`; `now` is monotonic seconds. Restarts back off from 0.2 s, doubling up
to 30 s; a minute of running resets the backoff. Kubernetes waits from 10 s up to 5 minutes, because a start
there may pull an image and load a whole cluster; here a start is a fork, and a person is watching.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum

from headgate.node import pod_spec

FIRST_BACKOFF_S = 0.2
LONGEST_BACKOFF_S = 30.0
FORGIVEN_AFTER_S = 60.0


class State(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class Start:
    """Start the container; `run` counts its starts from 0."""

    container: str
    run: int


@dataclass(frozen=True)
class Signal:
    """Send a signal to the container's process group."""

    container: str
    number: signal.Signals


@dataclass(frozen=True)
class PreStop:
    """Run the container's preStop hook, for at most the grace period; the signal comes after it."""

    container: str
    grace_s: float


Instruction = Start | Signal | PreStop


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    exit_code: int
    reason: str
    signal: int | None = None
    message: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    container_id: str = ""


@dataclass(frozen=True)
class History:
    """The state of a container from before this node started."""

    restart_count: int = 0
    last: Ended | None = None
    done: bool = False
    """It ended, and its restart policy does not restart it."""


class _Stopping:
    """A requested end of a run: the preStop hook and SIGTERM first, SIGKILL after the grace period."""

    def __init__(self, *, has_hook: bool) -> None:
        self.because: str | None = None
        """The reason; None if no end was requested."""
        self._has_hook = has_hook
        self._grace_s = 0.0
        self._kill_at: float | None = None
        self._term_is_due = False
        self._killed = False

    @property
    def wake_at(self) -> float | None:
        return None if self._killed else self._kill_at

    def want(self, reason: str, grace_s: float) -> None:
        """Request the end; a second request can only shorten the grace period."""
        if self.because is None:
            self.because, self._grace_s = reason, grace_s
        elif grace_s < self._grace_s:
            if self._kill_at is not None:
                self._kill_at -= self._grace_s - grace_s
            self._grace_s = grace_s

    def hook_ended(self) -> None:
        self._term_is_due = self._kill_at is not None and not self._killed

    def next(self, name: str, now: float) -> Signal | PreStop | None:
        """What is due for the container of this name."""
        if self.because is None or self._killed:
            return None
        if self._kill_at is None:
            self._kill_at = now + self._grace_s
            if self._has_hook and self._grace_s > 0:
                return PreStop(name, self._grace_s)
            self._term_is_due = self._grace_s > 0
        if now >= self._kill_at:
            self._killed = True
            return Signal(name, signal.SIGKILL)
        if self._term_is_due:
            self._term_is_due = False
            return Signal(name, signal.SIGTERM)
        return None

    def begin_again(self) -> None:
        """Reset for a new run, which has received no signal."""
        self._kill_at, self._killed, self._term_is_due = None, False, False


class ContainerLife:
    """One container of the Pod. Only `PodLife` changes it."""

    def __init__(
        self, spec: pod_spec.Container, history: History, now: float, *, is_init: bool = False
    ) -> None:
        self.spec = spec
        self.is_init = is_init
        self.state = State.ENDED if history.done else State.WAITING
        self.restarts = history.restart_count
        self.last = history.last
        """The newest run that ended."""
        self.waiting_reason, self.waiting_message = "ContainerCreating", ""
        self.container_id = ""
        self.started_at = 0.0
        self._answers = _Answers(spec)
        self._schedule = _Schedule(now, history)
        self._stopping = _Stopping(has_hook=spec.lifecycle.pre_stop is not None)

    @property
    def is_sidecar(self) -> bool:
        """An init container that runs beside the others."""
        return self.is_init and self.spec.restart_policy == "Always"

    @property
    def stop_because(self) -> str | None:
        """Why the run is being ended, if it is."""
        return self._stopping.because

    @property
    def started(self) -> bool:
        """Running, and past its postStart hook and its startup probe."""
        return self.state is State.RUNNING and self._answers.started

    @property
    def ready(self) -> bool:
        """An init container that is no sidecar is ready when it has succeeded."""
        if self.is_init and not self.is_sidecar:
            return self.succeeded
        return self.started and self._answers.ready and self.stop_because is None

    @property
    def active(self) -> bool:
        return self.state in (State.STARTING, State.RUNNING)

    @property
    def succeeded(self) -> bool:
        return self.state is State.ENDED and self.last is not None and self.last.exit_code == 0

    @property
    def backoff_s(self) -> float:
        """The delay after the latest failure."""
        return self._schedule.backoff_s

    def wake_at(self) -> float | None:
        if self.state is State.WAITING:
            return self._schedule.not_before
        return self._stopping.wake_at if self.state is State.RUNNING else None

    # Instructions

    def start(self, now: float) -> Start | None:
        if self.state is not State.WAITING or not self._schedule.is_due(now):
            return None
        self.state = State.STARTING
        self.restarts = self._schedule.count_start(self.restarts)
        return Start(self.spec.name, self.restarts)

    def stop_step(self, now: float) -> Signal | PreStop | None:
        """What is due on the way to a requested end."""
        return self._stopping.next(self.spec.name, now) if self.state is State.RUNNING else None

    # Events

    def stop(self, reason: str, grace_s: float) -> None:
        """Request a stop; a second one can only shorten the grace period."""
        self._stopping.want(reason, grace_s)

    def run_started(self, container_id: str, now: float) -> None:
        self.state = State.RUNNING
        self.container_id = container_id
        self.started_at = now
        self._answers = _Answers(self.spec)
        self._stopping.begin_again()

    def post_start_ended(self) -> None:
        self._answers.hook = True

    def pre_stop_ended(self) -> None:
        self._stopping.hook_ended()

    def readiness(self, healthy: bool) -> None:
        self._answers.readiness = healthy

    def startup_succeeded(self) -> None:
        self._answers.startup = True

    def rest(self, reason: str, message: str, *, until: float | None) -> None:
        """Stop running: until a time, or for good."""
        self.state = State.WAITING
        self._schedule.not_before = until
        self.waiting_reason, self.waiting_message = reason, message
        self._stopping.because = None

    def uncount_start(self) -> None:
        """The start failed before there was anything that could run."""
        self.restarts = self._schedule.uncount_start(self.restarts)

    def run_ended(self, ended: Ended) -> None:
        self.last = ended
        self.state = State.ENDED
        self.container_id = ended.container_id

    def failed_again(self, now: float) -> float:
        """Count a failure; returns the delay before a restart."""
        if self.started_at and now - self.started_at >= FORGIVEN_AFTER_S:
            self._schedule.failures = 0
        self._schedule.failures += 1
        return self.backoff_s


class _Answers:
    """What hook and probes have said about the current run."""

    def __init__(self, spec: pod_spec.Container) -> None:
        self.hook = spec.lifecycle.post_start is None
        self.startup = spec.startup_probe is None
        self.readiness = spec.readiness_probe is None

    @property
    def started(self) -> bool:
        return self.hook and self.startup

    @property
    def ready(self) -> bool:
        return self.readiness


class _Schedule:
    """When the container may start again, and how often it has."""

    def __init__(self, now: float, history: History) -> None:
        self.not_before: float | None = now
        """None for never again."""
        self.failures = 0
        self._has_started = history.last is not None
        self._counted = False

    @property
    def backoff_s(self) -> float:
        if not self.failures:
            return 0.0
        return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(self.failures - 1, 30))

    def is_due(self, now: float) -> bool:
        return self.not_before is not None and now >= self.not_before

    def count_start(self, restarts: int) -> int:
        """The new number of restarts; the first start is none."""
        self._counted = self._has_started
        self._has_started = True
        return restarts + 1 if self._counted else restarts

    def uncount_start(self, restarts: int) -> int:
        """The number before the last start."""
        self._has_started = self._counted
        return restarts - 1 if self._counted else restarts
