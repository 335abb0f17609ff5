"""Why a Pod of a Model does not serve: not scheduled, its download failed, its engine does not start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from headgate import api
from headgate.controllers.model.observed import KnownPod

DOWNLOADS: Final = ("download", "adapter-")
"""The names of init containers that download begin with these."""
RUNTIME: Final = "runtime"
"""The sidecar."""
ENGINE: Final = "engine"

DOWNLOAD_FAILED, ENGINE_FAILING, UNSCHEDULABLE = "DownloadFailed", "EngineFailing", "Unschedulable"
SIDECAR_FAILING, PODS_REJECTED, DOWNLOADING = "SidecarFailing", "PodsRejected", "Downloading"
NOT_SUPPORTED = "NotSupported"

LONGEST = 1024
"""Characters of a message that a container left."""

# Reasons of a Pod or container that the node ended, not the program: those of headgate node, which starts it
# again, and those of a kubelet that shuts down.
_OF_NODE = frozenset({"NodeShutdown", "AddressChanged", "NodeLost", "Shutdown", "Terminated"})
# Reasons for which a container waits as a matter of course.
_USUAL = frozenset({"", "PodInitializing", "ContainerCreating"}) | _OF_NODE


def plain(text: str) -> str:
    """Text from a Pod, shortened, on one line and without control characters, which a terminal would obey."""
    shown = (each if each.isprintable() else _escaped(each) for each in text[:LONGEST])
    return "".join(shown)[:LONGEST]


def _escaped(character: str) -> str:
    return " " if character.isspace() else f"\\u{ord(character):04x}"


class Trouble(NamedTuple):
    """A reason for the Active condition, and what a person should know."""

    reason: str
    message: str
    has_progress: bool = False
    """Of a download: whether it is known how far it is."""
    runs_again: bool = False
    """Whether it is about a container that failed before, and runs."""


_ORDER: Final = (
    NOT_SUPPORTED,
    PODS_REJECTED,
    DOWNLOAD_FAILED,
    ENGINE_FAILING,
    SIDECAR_FAILING,
    UNSCHEDULABLE,
    DOWNLOADING,
)


def worst(troubles: Iterable[Trouble]) -> Trouble | None:
    """The trouble that most needs a person."""
    return min(troubles, key=lambda each: (_ORDER.index(each.reason), each.message), default=None)


def of_pod(pod: KnownPod) -> Trouble | None:
    """Why the Pod does not serve, as far as more is known than that it has not started yet."""
    if pod.is_ready or pod.is_leaving or pod.status.reason in _OF_NODE:
        return None
    name = pod.metadata.name
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return Trouble(UNSCHEDULABLE, f"Pod {name}: {plain(condition.message)}")
    if pod.status.phase == "Failed":
        why = pod.status.message or pod.status.reason or "it ended"
        return Trouble(ENGINE_FAILING, f"Pod {name}: {plain(why)}")
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return worst(
        Trouble(_reason(each.name), f"Pod {name}, container {each.name}: {why}", runs_again=_runs_again(each))
        for each in statuses
        if (why := _failure(each))
    )


def of_container(pod: KnownPod, container: str) -> str:
    """Why this container of the Pod fails; empty if it does not."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((_failure(each) for each in statuses if each.name == container), "")


def downloads(pod: KnownPod) -> bool:
    """Whether a download runs in the Pod."""
    return any(
        each.name.startswith(DOWNLOADS) and each.state.running is not None
        for each in pod.status.init_container_statuses
    )


def runs(pod: KnownPod, container: str) -> str | None:
    """When the container's current run began; None if it does not run."""
    for each in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if each.name == container and each.state.running is not None:
            return f"{each.restart_count}/{each.state.running.started_at}"
    return None


def _reason(container: str) -> str:
    if container.startswith(DOWNLOADS):
        return DOWNLOAD_FAILED
    return SIDECAR_FAILING if container == RUNTIME else ENGINE_FAILING


def _failure(status: api.ContainerStatus) -> str:
    """Why the container fails; empty if it does not."""
    state, last = status.state, status.last_state.terminated
    if state.terminated is not None:
        return _ending(state.terminated)
    if state.waiting is not None:
        ended = _ending(last) if last is not None else ""
        if ended:
            return ended
        if state.waiting.reason not in _USUAL:
            message = plain(state.waiting.message)
            reason = plain(state.waiting.reason)
            return f"{reason}: {message}" if message else reason
        return ""
    # One that runs again has not recovered before it is ready, or has succeeded.
    if last is not None and not status.ready:
        ended = _ending(last)
        return f"{ended}; it runs again" if ended else ""
    return ""


def _runs_again(status: api.ContainerStatus) -> bool:
    return status.state.terminated is None and status.state.waiting is None


def _ending(ended: api.ContainerStateTerminated) -> str:
    """How a container failed, with the message it left; empty if it succeeded, or the node ended it."""
    if ended.exit_code == 0 or ended.reason in _OF_NODE:
        return ""
    message = plain(_last_line(ended.message))
    how = f"ended with exit code {ended.exit_code}"
    if ended.reason not in ("", "Error", "Completed"):
        how = f"{plain(ended.reason)}, {how}"
    return f"{message} ({how})" if message else how


def _last_line(message: str) -> str:
    """The end of a log has a traceback before the error, which is in the last line."""
    lines = message.strip().splitlines()
    return lines[-1].strip() if lines else ""
