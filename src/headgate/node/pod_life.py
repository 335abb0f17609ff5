"""The life cycle of a Pod: events in (started, exited, probed, stop), instructions out (start, signal).

A state machine without I/O; `now` is monotonic seconds. `pod_worker` drives it, `pod_status` converts it for
the API, and `container_life` has the part of one container.

Init containers run one after the other. A sidecar is an init container with restartPolicy Always: the next
one starts when it has started, and it runs until all main containers have ended. Sidecars end last, in
reverse order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from headgate.node import pod_spec
from headgate.node.container_life import (
    FIRST_BACKOFF_S,
    FORGIVEN_AFTER_S,
    LONGEST_BACKOFF_S,
    ContainerLife,
    Ended,
    History,
    Instruction,
    PreStop,
    Signal,
    Start,
    State,
)
from headgate.node.probe_schedule import ProbeKind

__all__ = [
    "FIRST_BACKOFF_S",
    "FORGIVEN_AFTER_S",
    "LONGEST_BACKOFF_S",
    "ContainerLife",
    "Ended",
    "History",
    "Instruction",
    "PodLife",
    "PreStop",
    "Signal",
    "Start",
    "State",
    "StopReason",
]

CONFIG_RETRY_S = 2.0
"""Until a container is tried again that lacks an object, which somebody may create at any time."""
LEAST_SIDECAR_GRACE_S = 2.0
"""For sidecars whose turn comes when the grace period is over."""


class StopReason(StrEnum):
    """Why a Pod ends."""

    DELETED = "Deleted"
    NODE_SHUTDOWN = "NodeShutdown"
    MOVED = "AddressChanged"
    COMPLETED = "Completed"
    """Its main containers have ended for good, and its sidecars follow."""
    DEADLINE = "DeadlineExceeded"


_OF_NODE = (StopReason.NODE_SHUTDOWN, StopReason.MOVED)
_BY_ITSELF = (StopReason.COMPLETED, StopReason.DEADLINE)


class PodLife:
    """All containers of one Pod, from the first start to the last exit."""

    def __init__(
        self,
        spec: pod_spec.PodSpec,
        now: float,
        history: Mapping[str, History] | None = None,
        *,
        waits_for_volumes: bool = False,
        deadline: float | None = None,
    ) -> None:
        """`deadline`: when the Pod fails, whatever it does."""
        known = history or {}
        self._policy = spec.restart_policy
        self._grace_s = float(spec.termination_grace_period_seconds)
        self._waits_for_volumes = waits_for_volumes
        self._deadline = deadline
        self.init_containers = [
            ContainerLife(each, known.get(each.name, History()), now, is_init=True)
            for each in spec.init_containers
        ]
        self.containers = [
            ContainerLife(each, known.get(each.name, History()), now) for each in spec.containers
        ]
        self._by_name = {each.spec.name: each for each in (*self.init_containers, *self.containers)}
        self._was_initialized = False
        self._end = _End()

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

    def post_start_ended(self, name: str, problem: str) -> None:
        """A container whose hook has a problem is ended, and starts again."""
        container = self._by_name[name]
        if problem:
            container.stop(f"postStart hook failed: {problem}", self._grace_s)
        else:
            container.post_start_ended()

    def pre_stop_ended(self, name: str) -> None:
        self._by_name[name].pre_stop_ended()

    def exited(
        self, name: str, exit_code: int, signal_number: int | None, now: float, message: str = ""
    ) -> None:
        """`message`: what the container leaves to say about its end."""
        container = self._by_name[name]
        forced = container.stop_because if self._end.reason is None else None
        failed = self._end.reason if self._end.reason in _OF_NODE else "Error"
        ended = Ended(
            exit_code,
            "Completed" if exit_code == 0 else failed,
            signal_number,
            message or forced or "",
            container.started_at,
            now,
            container.container_id,
        )
        container.run_ended(ended)
        if self._end.reason in _OF_NODE:
            assert self._end.reason is not None
            container.rest(self._end.reason, "stopped by the node, which will start it again", until=None)
        if self._end.reason is not None or not self._restarts(container, forced=forced is not None):
            return
        wait_s = container.failed_again(now)
        container.rest(
            "CrashLoopBackOff",
            f"restarting in {wait_s:.1f} s after exit code {exit_code}",
            until=now + wait_s,
        )

    def probed(
        self, name: str, kind: ProbeKind, healthy: bool, detail: str = "", grace_s: float | None = None
    ) -> None:
        """The result of a probe of the current run; `grace_s` is the probe's own, if it has one."""
        container = self._by_name[name]
        if container.state is not State.RUNNING:
            return
        if kind is ProbeKind.READINESS:
            container.readiness(healthy)
        elif kind is ProbeKind.STARTUP and healthy:
            container.startup_succeeded()
        elif not healthy:
            container.stop(f"{kind} probe failed: {detail}", self._grace_s if grace_s is None else grace_s)

    def stop(self, reason: StopReason, grace_s: float) -> None:
        """End everything; nothing is started from now on."""
        self._end.want(reason, grace_s)
        for each in self.init_containers:
            if each.is_sidecar and each.stop_because is not None:
                each.stop(reason, grace_s)

    # Instructions

    def decide(self, now: float) -> list[Instruction]:
        """What to do now; each instruction is returned once."""
        self._was_initialized = self.initialized
        if self._deadline is not None and now >= self._deadline and not self._is_over:
            self._end.want(StopReason.DEADLINE, self._grace_s)
        if self._is_over:
            self._end.want(StopReason.COMPLETED, self._grace_s)
        self._pass_on_the_end(now)
        steps = [step for each in self._by_name.values() if (step := each.stop_step(now)) is not None]
        starts = [start for each in self._eligible() if (start := each.start(now)) is not None]
        return [*steps, *starts]

    def wake_at(self) -> float | None:
        """When `decide` has something new to return without another event."""
        candidates = {*self._eligible(), *(each for each in self._by_name.values() if each.active)}
        times = [at for each in candidates if (at := each.wake_at()) is not None]
        if self._deadline is not None and self._end.reason is None and not self._is_over:
            times.append(self._deadline)
        return min(times, default=None)

    # Queries

    @property
    def stopping(self) -> StopReason | None:
        """Why the Pod's worker has to end, if it has."""
        return None if self._end.reason in _BY_ITSELF else self._end.reason

    @property
    def exceeded(self) -> bool:
        """Whether the Pod failed by its deadline."""
        return self._end.cause is StopReason.DEADLINE

    @property
    def active(self) -> bool:
        """Whether a process runs or is being started."""
        return any(each.active for each in self._by_name.values())

    @property
    def waits_for_volumes(self) -> bool:
        return self._waits_for_volumes

    @property
    def initialized(self) -> bool:
        """Once all init containers have succeeded and all sidecars have started, for good."""
        return self._was_initialized or all(
            each.started if each.is_sidecar else each.succeeded for each in self.init_containers
        )

    @property
    def ready(self) -> bool:
        containers = [*self.containers, *(each for each in self.init_containers if each.is_sidecar)]
        return self._end.reason is None and bool(self.containers) and all(each.ready for each in containers)

    @property
    def phase(self) -> str:
        if self.exceeded and not self.active:
            return "Failed"
        if self._is_over and not self.active:
            succeeded = all(each.succeeded for each in self.containers) and not self._init_failed
            return "Succeeded" if succeeded else "Failed"
        if self._end.reason in _OF_NODE and not self.active:
            return "Pending"
        # As with a kubelet, one container that could never start keeps the Pod Pending.
        begun = all(each.state is State.RUNNING or each.last is not None for each in self.containers)
        return "Running" if begun and self.initialized else "Pending"

    def validate(self) -> None:
        """Check the invariants."""
        for each in self._by_name.values():
            assert not each.ready or each.state is State.RUNNING or each.is_init
            assert each.restarts >= 0
            assert 0 <= each.backoff_s <= LONGEST_BACKOFF_S
        if not self.initialized:
            assert not any(each.active for each in self.containers)
        assert not (self._end.reason and self.ready)

    # Starting

    def _eligible(self) -> Iterator[ContainerLife]:
        """Containers that may start: init containers one after the other, then all others together."""
        if self._end.reason is not None or self._waits_for_volumes:
            return
        for each in self.init_containers:
            if each.is_sidecar:
                yield each
            if self._was_initialized:
                continue
            if not each.is_sidecar and not each.succeeded:
                yield each
            if not (each.started if each.is_sidecar else each.succeeded):
                return
        yield from self.containers

    def _restarts(self, container: ContainerLife, *, forced: bool) -> bool:
        assert container.last is not None
        failed = container.last.exit_code != 0 or forced
        policy = container.spec.restart_policy or self._policy
        if container.is_init and not container.is_sidecar:
            return failed and policy != "Never"
        return policy == "Always" or (policy == "OnFailure" and failed)

    # Ending

    @property
    def _init_failed(self) -> bool:
        return any(
            each.state is State.ENDED and not each.succeeded and not self._restarts(each, forced=False)
            for each in self.init_containers
        )

    @property
    def _is_over(self) -> bool:
        """Whether the Pod has ended by itself, except perhaps for its sidecars."""
        done = bool(self.containers) and all(each.state is State.ENDED for each in self.containers)
        return done or (self._init_failed and not any(each.active for each in self.containers))

    def _pass_on_the_end(self, now: float) -> None:
        """Stop the main containers at once, and each sidecar after all that were started after it."""
        if self._end.reason is None:
            return
        self._end.begin(now)
        for each in self._by_name.values():
            if not each.is_sidecar:
                each.stop(self._end.reason, self._end.grace_s)
        if any(each.active for each in self._by_name.values() if not each.is_sidecar):
            return
        for each in reversed(self.init_containers):
            if each.active:
                if each.stop_because is None:
                    each.stop(self._end.reason, self._end.sidecar_grace_s(now))
                return


class _End:
    """A requested end of the whole Pod."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        """The strongest one: a deletion also ends a Pod that has completed."""
        self.cause: StopReason | None = None
        """The first one."""
        self.grace_s = 0.0
        self._began_at: float | None = None

    def want(self, reason: StopReason, grace_s: float) -> None:
        if self.reason is None:
            self.cause = self.reason = reason
            self.grace_s = grace_s
            return
        if self.reason in _BY_ITSELF and reason not in _BY_ITSELF:
            self.reason = reason
        self.grace_s = min(self.grace_s, grace_s)

    def begin(self, now: float) -> None:
        if self._began_at is None:
            self._began_at = now

    def sidecar_grace_s(self, now: float) -> float:
        """What is left of the grace period, or a little."""
        if self.grace_s <= 0 or self._began_at is None:
            return 0.0
        return max(self._began_at + self.grace_s - now, min(self.grace_s, LEAST_SIDECAR_GRACE_S))
