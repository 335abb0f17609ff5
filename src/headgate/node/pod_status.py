"""Converts the life of a Pod to the API's `status`, and back after a restart of the node."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from headgate import api
from headgate.kubeschema import quantity, timestamps
from headgate.node import pod_spec
from headgate.node.pod_life import ContainerLife, Ended, History, PodLife, State

_KILLED = 137
_COMPUTE = ("cpu", "memory")
_OWN_CONDITIONS = ("PodReadyToStartContainers", "PodScheduled", "Initialized", "ContainersReady", "Ready")


@dataclass(frozen=True)
class Place:
    """What the node adds to a Pod: its addresses and start time."""

    pod_ip: str
    host_ip: str
    started_at: float
    epoch_s: float
    """Unix time at monotonic zero; a whole number, so that times survive the conversion to text and back."""
    external: str = ""
    """The external server that the Pod represents, if it has no process."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the status that never change."""
    readiness_gates: Sequence[str] = ()
    """Conditions written by others that a ready Pod needs."""

    def time(self, now: float) -> str:
        return timestamps.seconds(now + self.epoch_s)


def picture(
    life: PodLife, place: Place, before: api.PodStatus, now: float, present: Sequence[api.Condition] = ()
) -> api.PodStatus:
    """The status at `now`. A condition unchanged since `before` keeps its transition time.

    `present` are the conditions in the API, of which those of others are kept.
    """
    others = [each for each in present if each.type not in _OWN_CONDITIONS]
    reason, message = ("External", _where(life, place)) if place.external else ("", "")
    if life.exceeded:
        reason, message = "DeadlineExceeded", "the Pod ran longer than its activeDeadlineSeconds"
    return api.PodStatus(
        phase=life.phase,
        conditions=[*_conditions(life, place, before.conditions, now, others), *others],
        message=message,
        reason=reason,
        pod_ip=place.pod_ip,
        pod_ips=[api.PodIP(ip=place.pod_ip)] if place.pod_ip else [],
        host_ip=place.host_ip,
        start_time=before.start_time or place.time(place.started_at),
        container_statuses=[
            _container(each, place, initialized=life.initialized) for each in life.containers
        ],
    )


def constants(spec: pod_spec.PodSpec, host_ip: str, present: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the status that are known from the start; the API server of a cluster sets the class."""
    fixed: dict[str, Any] = {"hostIPs": [{"ip": host_ip}]}
    return fixed if present.get("qosClass") else fixed | {"qosClass": quality_of_service(spec)}


def quality_of_service(spec: pod_spec.PodSpec) -> str:
    """Guaranteed if every container has limits of CPU and memory that equal its requests; BestEffort if none
    has any of these."""
    amounts = [each.resources for each in spec.every_container()]
    if not any(name in (*each.limits, *each.requests) for each in amounts for name in _COMPUTE):
        return "BestEffort"
    for each in amounts:
        for name in _COMPUTE:
            limit = each.limits.get(name)
            if limit is None or quantity.parse(each.requests.get(name, limit)) != quantity.parse(limit):
                return "Burstable"
    return "Guaranteed"


def _where(life: PodLife, place: Place) -> str:
    where = f"served from {place.external}, outside of this node"
    return where if life.ready else f"{where}, where its readiness probe fails (see its events)"


def patch(status: api.PodStatus, place: Place, init: Iterable[api.ContainerStatus] = ()) -> dict[str, Any]:
    """The status as a merge patch, including fields at their defaults, which would keep old values."""
    content: dict[str, Any] = msgspec.to_builtins(status)
    empty = {"message": None, "reason": None}
    inits = [msgspec.to_builtins(each) for each in init]
    for each in (*content.get("containerStatuses", ()), *inits):
        for state in (each["state"], each["lastState"]):
            if "terminated" in state:
                state["terminated"].setdefault("exitCode", 0)  # a required field, and 0 is our default
    result = {**empty, **content, **place.constants}
    return result | {"initContainerStatuses": inits} if inits else result


def init_statuses(life: PodLife, place: Place) -> list[api.ContainerStatus]:
    return [_container(each, place, initialized=life.initialized) for each in life.init_containers]


def history(
    pod: api.Pod, sidecars: Collection[str], init: Iterable[api.ContainerStatus], epoch_s: float
) -> dict[str, History]:
    """The history of each container from the last status, possibly written by an earlier node."""
    policy = pod.spec.restart_policy
    known = {each.name: _history(each, policy, epoch_s) for each in pod.status.container_statuses}
    # An init container that succeeded is done, whatever the policy says; a sidecar never is.
    return known | {
        each.name: _history(each, "Always" if each.name in sidecars else "OnFailure", epoch_s)
        for each in init
    }


def _history(status: api.ContainerStatus, policy: str, epoch_s: float) -> History:
    state = status.state
    if state.terminated is not None:
        last = _ended(state.terminated, status.container_id, epoch_s)
        rests = policy == "Never" or (policy == "OnFailure" and last.exit_code == 0)
        return History(status.restart_count, last, done=rests)
    if state.running is not None:
        started = _monotonic(state.running.started_at, epoch_s)
        message = "the node ended before the container did"
        last = Ended(_KILLED, "NodeLost", None, message, started, None, status.container_id)
        return History(status.restart_count, last)
    if status.last_state.terminated is not None:
        return History(status.restart_count, _ended(status.last_state.terminated, "", epoch_s))
    return History(status.restart_count)


def _ended(terminated: api.ContainerStateTerminated, container_id: str, epoch_s: float) -> Ended:
    return Ended(
        terminated.exit_code,
        terminated.reason,
        terminated.signal,
        terminated.message,
        _monotonic(terminated.started_at, epoch_s),
        _monotonic(terminated.finished_at, epoch_s),
        container_id,
    )


def _monotonic(text: str | None, epoch_s: float) -> float | None:
    try:
        return timestamps.parse(text) - epoch_s if text else None
    except ValueError:
        return None


def _conditions(
    life: PodLife,
    place: Place,
    before: Iterable[api.Condition],
    now: float,
    others: Iterable[api.Condition],
) -> list[api.Condition]:
    reason, message = _not_ready(life)
    completed = "PodCompleted" if life.phase == "Succeeded" else ""
    initialized = (life.initialized, completed if life.initialized else "ContainersNotInitialized", "")
    closed = set(place.readiness_gates) - {each.type for each in others if each.status == "True"}
    ready = (life.ready, reason, message)
    if life.ready and closed:
        told = f"the conditions of its readiness gates are not True: {', '.join(sorted(closed))}"
        ready = (False, "ReadinessGatesNotReady", told)
    wanted = {
        "PodReadyToStartContainers": (not life.waits_for_volumes, "", ""),
        "PodScheduled": (True, "", ""),
        "Initialized": initialized,
        "ContainersReady": (life.ready, reason, message),
        "Ready": ready,
    }
    old = {each.type: each for each in before}
    return [_condition(kind, *each, old.get(kind), place.time(now)) for kind, each in wanted.items()]


def _condition(
    kind: str, holds: bool, reason: str, message: str, old: api.Condition | None, now: str
) -> api.Condition:
    status: Literal["True", "False"] = "True" if holds else "False"
    return api.Condition(type=kind, status=status, reason=reason, message=message).after(old, now)


def _not_ready(life: PodLife) -> tuple[str, str]:
    if life.ready:
        return "", ""
    if life.stopping is not None:
        return life.stopping, "the Pod's processes are being stopped"
    if life.phase in ("Succeeded", "Failed"):
        return ("PodCompleted" if life.phase == "Succeeded" else "PodFailed"), ""
    sidecars = [each for each in life.init_containers if each.is_sidecar]
    names = ", ".join(each.spec.name for each in (*sidecars, *life.containers) if not each.ready)
    return "ContainersNotReady", f"containers with unready status: [{names}]"


def _container(container: ContainerLife, place: Place, *, initialized: bool) -> api.ContainerStatus:
    last = container.last
    shows_last = last is not None and container.state is not State.ENDED
    return api.ContainerStatus(
        name=container.spec.name,
        ready=container.ready,
        restart_count=container.restarts,
        started=container.started,
        image=container.spec.image,
        container_id=container.container_id,
        state=_state(container, place, waits_for_init=not initialized and not container.is_init),
        last_state=api.ContainerState(terminated=_terminated(last, place) if shows_last and last else None),
    )


def _state(container: ContainerLife, place: Place, *, waits_for_init: bool) -> api.ContainerState:
    match container.state:
        case State.RUNNING:
            running = api.ContainerStateRunning(started_at=place.time(container.started_at))
            return api.ContainerState(running=running)
        case State.ENDED if container.last is not None:
            return api.ContainerState(terminated=_terminated(container.last, place))
        case State.STARTING:
            return api.ContainerState(waiting=api.ContainerStateWaiting(reason="ContainerCreating"))
        case _:
            reason = container.waiting_reason
            if waits_for_init and reason == "ContainerCreating":
                reason = "PodInitializing"
            waiting = api.ContainerStateWaiting(reason=reason, message=container.waiting_message)
            return api.ContainerState(waiting=waiting)


def _terminated(ended: Ended, place: Place) -> api.ContainerStateTerminated:
    return api.ContainerStateTerminated(
        exit_code=ended.exit_code,
        signal=ended.signal,
        reason=ended.reason,
        message=ended.message,
        started_at=None if ended.started_at is None else place.time(ended.started_at),
        finished_at=None if ended.finished_at is None else place.time(ended.finished_at),
    )
