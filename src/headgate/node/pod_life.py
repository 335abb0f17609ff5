"""The life cycle of a Pod: events in (started, exited, probed, stop), instructions out (start, signal).

A state machine without I/O; `now` is monotonic seconds. `pod_worker` drives it, `pod_status` converts it for
the API. Restarts back off from 0.2 s, doubling up to 30 s; a minute of running resets the backoff. Kubernetes
waits from 10 s up to 5 minutes, because a start there may pull an image and load a whole cluster; here a
start is a fork, and a person is watching.
"""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headgate import api
from headgate.node.probe_schedule import ProbeKind

FIRST_BACKOFF_S = 0.2
LONGEST_BACKOFF_S = 30.0
FORGIVEN_AFTER_S = 60.0
CONFIG_RETRY_S = 2.0
"""Until a container is tried again that lacks an object, which somebody may create at any time."""


class State(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class StopReason(StrEnum):
    DELETED = "Deleted"
    NODE_SHUTDOWN = "NodeShutdown"
    MOVED = "AddressChanged"


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


Instruction = Start | Signal


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
    """A requested end of a run: SIGTERM first, SIGKILL after the grace period."""

    def __init__(self) -> None:
        self.because: str | None = None
        """The reason; None if no end was requested."""
        self._grace_s = 0.0
        self._kill_at: float | None = None
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

    def signal(self, now: float) -> signal.Signals | None:
        """The signal that is due."""
        if self.because is None or self._killed:
            return None
        if self._kill_at is None:
            self._kill_at = now + self._grace_s
            if self._grace_s > 0:
                return signal.SIGTERM
        if now < self._kill_at:
            return None
        self._killed = True
        return signal.SIGKILL

    def begin_again(self) -> None:
        """Reset for a new run, which has received no signal."""
        self._kill_at, self._killed = None, False


class ContainerLife:
    """One container of the Pod. Only `PodLife` changes it."""

    def __init__(self, spec: api.Container, history: History, now: float) -> None:
        self.spec = spec
        self.state = State.ENDED if history.done else State.WAITING
        self.restarts = history.restart_count
        self.last = history.last
        """The newest run that ended."""
        self.waiting_reason = "ContainerCreating"
        self.waiting_message = ""
        self.container_id = ""
        self.started_at = 0.0
        self.ready_answer = self.startup_answer = False
        self._not_before: float | None = now
        """When it may start; None for never again."""
        self._failures = 0
        self._first_run = history.last is None
        self._uncounted = (self.restarts, self._first_run)
        """Before the start that is in progress."""
        self._stopping = _Stopping()

    @property
    def stop_because(self) -> str | None:
        """Why the run is being ended, if it is."""
        return self._stopping.because

    @property
    def started(self) -> bool:
        """Running, and past its startup probe."""
        return self.state is State.RUNNING and (self.startup_answer or self.spec.startup_probe is None)

    @property
    def ready(self) -> bool:
        answered = self.ready_answer or self.spec.readiness_probe is None
        return self.started and answered and self.stop_because is None

    @property
    def active(self) -> bool:
        return self.state in (State.STARTING, State.RUNNING)

    @property
    def succeeded(self) -> bool:
        return self.state is State.ENDED and self.last is not None and self.last.exit_code == 0

    @property
    def backoff_s(self) -> float:
        """The delay after the latest failure."""
        return (
            min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(self._failures - 1, 30))
            if self._failures
            else 0.0
        )

    def wake_at(self) -> float | None:
        if self.state is State.WAITING:
            return self._not_before
        return self._stopping.wake_at if self.state is State.RUNNING else None

    def start(self, now: float) -> Start | None:
        if self.state is not State.WAITING or self._not_before is None or now < self._not_before:
            return None
        self.state = State.STARTING
        self._uncounted = (self.restarts, self._first_run)
        if self._first_run:
            self._first_run = False
        else:
            self.restarts += 1
        return Start(self.spec.name, self.restarts)

    def stop(self, reason: str, grace_s: float) -> None:
        """Request a stop; a second one can only shorten the grace period."""
        self._stopping.want(reason, grace_s)

    def signal(self, now: float) -> Signal | None:
        """The signal that is due."""
        due = self._stopping.signal(now) if self.state is State.RUNNING else None
        return None if due is None else Signal(self.spec.name, due)

    def run_started(self, container_id: str, now: float) -> None:
        self.state = State.RUNNING
        self.container_id = container_id
        self.started_at = now
        self.ready_answer = self.startup_answer = False
        self._stopping.begin_again()

    def rest(self, reason: str, message: str, *, until: float | None) -> None:
        """Stop running: until a time, or for good."""
        self.state = State.WAITING
        self._not_before = until
        self.waiting_reason, self.waiting_message = reason, message
        self._stopping.because = None

    def uncount_start(self) -> None:
        """The start failed before there was anything that could run."""
        self.restarts, self._first_run = self._uncounted

    def run_ended(self, ended: Ended) -> None:
        self.last = ended
        self.state = State.ENDED
        self.container_id = ended.container_id
        self.ready_answer = self.startup_answer = False

    def failed_again(self, now: float) -> float:
        """Count a failure; returns the delay before a restart."""
        if self.started_at and now - self.started_at >= FORGIVEN_AFTER_S:
            self._failures = 0
        self._failures += 1
        return self.backoff_s


class PodLife:
    """All containers of one Pod, from the first start to the last exit."""

    def __init__(
        self,
        spec: api.PodSpec,
        now: float,
        history: Mapping[str, History] | None = None,
        *,
        waits_for_volumes: bool = False,
    ) -> None:
        known = history or {}
        self._waits_for_volumes = waits_for_volumes
        self._policy = spec.restart_policy
        self._grace_s = float(spec.termination_grace_period_seconds)
        self.init_containers = [_container(each, known, now) for each in spec.init_containers]
        self.containers = [_container(each, known, now) for each in spec.containers]
        self._by_name = {each.spec.name: each for each in (*self.init_containers, *self.containers)}
        self._stop: StopReason | None = None

    # Events

    def has_volumes(self) -> None:
        """Containers may start."""
        if self._waits_for_volumes:
            self.lacks_volumes("")
            self._waits_for_volumes = False

    def lacks_volumes(self, message: str) -> None:
        """The volumes cannot be provided yet; no reason to stop a container that has them already."""
        for container in self._by_name.values():
            if self._waits_for_volumes and container.last is None:
                container.waiting_message = message

    def started(self, name: str, container_id: str, now: float) -> None:
        self._by_name[name].run_started(container_id, now)

    def cannot_start(self, name: str, reason: str, message: str) -> None:
        """The container can never run as specified."""
        self._by_name[name].rest(reason, message, until=None)

    def not_configured(self, name: str, reason: str, message: str, now: float) -> None:
        """The container lacks an object of its configuration; the start does not count as one."""
        container = self._by_name[name]
        container.uncount_start()
        container.rest(reason, message, until=now + CONFIG_RETRY_S)

    def start_failed(self, name: str, reason: str, message: str, now: float) -> None:
        """The start failed, but may succeed later."""
        container = self._by_name[name]
        container.rest(reason, message, until=now + container.failed_again(now))

    def exited(self, name: str, exit_code: int, signal_number: int | None, now: float) -> None:
        container = self._by_name[name]
        failed_probe = container.stop_because if self._stop is None else None
        ended = Ended(
            exit_code,
            "Completed" if exit_code == 0 else "Error",
            signal_number,
            failed_probe or "",
            container.started_at,
            now,
            container.container_id,
        )
        container.run_ended(ended)
        if self._interrupted:
            assert self._stop is not None
            container.rest(self._stop, "stopped by the node, which will start it again", until=None)
        if self._stop is not None or not self._restarts(container, forced=failed_probe is not None):
            return
        wait_s = container.failed_again(now)
        container.rest(
            "CrashLoopBackOff",
            f"restarting in {wait_s:.1f} s after exit code {exit_code}",
            until=now + wait_s,
        )

    def probed(self, name: str, kind: ProbeKind, healthy: bool, detail: str = "") -> None:
        """The result of a probe of the current run."""
        container = self._by_name[name]
        if container.state is not State.RUNNING:
            return
        if kind is ProbeKind.READINESS:
            container.ready_answer = healthy
        elif kind is ProbeKind.STARTUP and healthy:
            container.startup_answer = True
        elif not healthy:
            container.stop(f"{kind} probe failed: {detail}", self._grace_s)

    def stop(self, reason: StopReason, grace_s: float) -> None:
        """End everything; nothing is started from now on."""
        self._stop = self._stop or reason
        for container in self._by_name.values():
            container.stop(reason, grace_s)

    # Instructions

    def decide(self, now: float) -> list[Instruction]:
        """What to do now; each instruction is returned once."""
        due = [signal for each in self._by_name.values() if (signal := each.signal(now)) is not None]
        starts = [start for each in self._eligible() if (start := each.start(now)) is not None]
        return [*due, *starts]

    def wake_at(self) -> float | None:
        """When `decide` has something new to return without another event."""
        candidates = {*self._eligible(), *(each for each in self._by_name.values() if each.active)}
        return min((at for each in candidates if (at := each.wake_at()) is not None), default=None)

    # Queries

    @property
    def stopping(self) -> StopReason | None:
        return self._stop

    @property
    def active(self) -> bool:
        """Whether a process runs or is being started."""
        return any(each.active for each in self._by_name.values())

    @property
    def initialized(self) -> bool:
        return all(each.succeeded for each in self.init_containers)

    @property
    def ready(self) -> bool:
        return self._stop is None and bool(self.containers) and all(each.ready for each in self.containers)

    @property
    def phase(self) -> str:
        if self._policy == "Never" and any(
            each.state is State.ENDED and not each.succeeded for each in self.init_containers
        ):
            return "Failed"
        if not self.initialized:
            return "Pending"
        if all(each.state is State.ENDED for each in self.containers):
            return "Succeeded" if all(each.succeeded for each in self.containers) else "Failed"
        if self._interrupted and not self.active:
            return "Pending"
        begun = any(each.state is State.RUNNING or each.last is not None for each in self.containers)
        return "Running" if begun else "Pending"

    @property
    def _interrupted(self) -> bool:
        """Stopped because of the node: the Pod did not end by itself, and will be restarted."""
        return self._stop not in (None, StopReason.DELETED)

    def validate(self) -> None:
        """Check the invariants."""
        for each in self._by_name.values():
            assert not each.ready or each.state is State.RUNNING
            assert each.restarts >= 0
            assert 0 <= each.backoff_s <= LONGEST_BACKOFF_S
        if not self.initialized:
            assert not any(each.active for each in self.containers)
        assert not (self._stop and self.ready)

    def _eligible(self) -> Sequence[ContainerLife]:
        """Containers that may start: init containers one after the other, then all others together."""
        if self._stop is not None or self._waits_for_volumes:
            return ()
        for each in self.init_containers:
            if not each.succeeded:
                return (each,)
        return self.containers

    def _restarts(self, container: ContainerLife, *, forced: bool) -> bool:
        assert container.last is not None
        failed = container.last.exit_code != 0 or forced
        if container in self.init_containers:
            return failed and self._policy != "Never"
        return self._policy == "Always" or (self._policy == "OnFailure" and failed)


def _container(spec: api.Container, known: Mapping[str, History], now: float) -> ContainerLife:
    return ContainerLife(spec, known.get(spec.name, History()), now)
