"""Converts the life of a Pod to the API's `status`, and back after a restart of the node."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from headgate import api
from headgate.kubeschema import timestamps
from headgate.node.pod_life import ContainerLife, Ended, History, PodLife, State

_KILLED = 137


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

    def time(self, now: float) -> str:
        return timestamps.seconds(now + self.epoch_s)


def picture(life: PodLife, place: Place, before: api.PodStatus, now: float) -> api.PodStatus:
    """The status at `now`. A condition unchanged since `before` keeps its transition time."""
    return api.PodStatus(
        phase=life.phase,
        conditions=_conditions(life, place, before.conditions, now),
        message=_where(life, place) if place.external else "",
        reason="External" if place.external else "",
        pod_ip=place.pod_ip,
        pod_ips=[api.PodIP(ip=place.pod_ip)] if place.pod_ip else [],
        host_ip=place.host_ip,
        start_time=before.start_time or place.time(place.started_at),
        container_statuses=[_container(each, place) for each in life.containers],
    )


def _where(life: PodLife, place: Place) -> str:
    where = f"served from {place.external}, outside of this node"
    return where if life.ready else f"{where}, where its readiness probe fails (see its events)"


def patch(status: api.PodStatus, init: Iterable[api.ContainerStatus] = ()) -> dict[str, Any]:
    """The status as a merge patch, including fields at their defaults, which would keep old values."""
    content: dict[str, Any] = msgspec.to_builtins(status)
    empty = {"message": None, "reason": None}
    result = {**empty, **content}
    inits = [msgspec.to_builtins(each) for each in init]
    return result | {"initContainerStatuses": inits} if inits else result


def init_statuses(life: PodLife, place: Place) -> list[api.ContainerStatus]:
    return [_container(each, place) for each in life.init_containers]


def history(pod: api.Pod, init: Iterable[api.ContainerStatus], epoch_s: float) -> dict[str, History]:
    """The history of each container from the last status, possibly written by an earlier node."""
    policy = pod.spec.restart_policy
    known = {each.name: _history(each, policy, epoch_s) for each in pod.status.container_statuses}
    # An init container that succeeded is done, whatever the policy says.
    return known | {each.name: _history(each, "OnFailure", epoch_s) for each in init}


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
    life: PodLife, place: Place, before: Iterable[api.Condition], now: float
) -> list[api.Condition]:
    reason, message = _not_ready(life)
    ready = (life.ready, reason, message)
    initialized = (life.initialized, "" if life.initialized else "ContainersNotInitialized", "")
    wanted = {
        "PodScheduled": (True, "", ""),
        "Initialized": initialized,
        "ContainersReady": ready,
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
    names = ", ".join(each.spec.name for each in life.containers if not each.ready)
    return "ContainersNotReady", f"containers with unready status: [{names}]"


def _container(container: ContainerLife, place: Place) -> api.ContainerStatus:
    last = container.last
    shows_last = last is not None and container.state is not State.ENDED
    return api.ContainerStatus(
        name=container.spec.name,
        ready=container.ready,
        restart_count=container.restarts,
        started=container.started,
        image=container.spec.image,
        container_id=container.container_id,
        state=_state(container, place),
        last_state=api.ContainerState(terminated=_terminated(last, place) if shows_last and last else None),
    )


def _state(container: ContainerLife, place: Place) -> api.ContainerState:
    match container.state:
        case State.RUNNING:
            running = api.ContainerStateRunning(started_at=place.time(container.started_at))
            return api.ContainerState(running=running)
        case State.ENDED if container.last is not None:
            return api.ContainerState(terminated=_terminated(container.last, place))
        case State.STARTING:
            return api.ContainerState(waiting=api.ContainerStateWaiting(reason="ContainerCreating"))
        case _:
            waiting = api.ContainerStateWaiting(
                reason=container.waiting_reason, message=container.waiting_message
            )
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
