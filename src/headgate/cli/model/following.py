"""Follow a Model until it answers: from its conditions, the containers of its Pods, and the gateway."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec

from headgate import api, cluster
from headgate.cli import process
from headgate.cli.progress import Progress

__all__ = ["STEPS", "ModelFailed", "Stage", "follow", "stage_of"]

STEPS = ("weights", "engine", "gateway")
POLL_S = 0.5
FAILED_FOR_S = 20.0
"""How long a Model must fail, since the next attempt may succeed."""
RECOVERED_S = 60.0
"""A failure is over once none was seen for so long: between two attempts, there is none either."""

_MODEL_LABEL = "registry.volcano.sh/model-name"
_ENGINE = "engine"
_FAILURES = ("DownloadFailed", "EngineFailing", "SidecarFailing", "PodsRejected")
"""Reasons of the Active condition for which somebody has to do something."""
_QUIET = ("PodInitializing", "ContainerCreating", "")
"""Reasons that mean only that something else comes first."""
_OF_REQUESTS = (404, 429)
"""Statuses below 500 that mean that the model does not answer yet."""

Object = Mapping[str, Any]


class ModelFailed(Exception):  # noqa: N818 - reads as what it says
    """The Model cannot run; the message says why."""


@dataclass(frozen=True)
class Stage:
    """How far a Model has come."""

    weights: str = ""
    """What the downloads do; empty if they are done."""
    engine: str = ""
    """What the engine does; empty if a Pod is ready."""
    failure: str = ""
    """Why the Model fails; empty if it does not."""
    unsupported: str = ""
    """What of the Model cannot be done, and is left out."""


def stage_of(model: Object, pods: Sequence[Object], workloads: Sequence[Object] = ()) -> Stage:
    """From the objects as the server has them.

    A Model that was changed has arrived when nothing of before runs any more.
    """
    conditions = {each.get("type"): each for each in _at(model, "status", "conditions") or ()}
    active, failed = conditions.get("Active") or {}, conditions.get("Failed") or {}
    generation = _at(model, "metadata", "generation")
    is_current = _at(model, "status", "observedGeneration") == generation
    alive = [pod for pod in pods if not _at(pod, "metadata", "deletionTimestamp")]
    supported = conditions.get("Supported") or {}
    has_failed = failed.get("status") == "True" and failed.get("observedGeneration") == generation
    failing = failed if has_failed else {}
    if (
        not has_failed
        and is_current
        and active.get("status") == "False"
        and active.get("reason") in _FAILURES
    ):
        failing = active
    is_active = active.get("status") == "True" and is_current
    failure = str(failing.get("message") or failing.get("reason") or "")
    replacing = _replacing(workloads) if is_active else ""
    if not failure and (replacing or not is_active):
        failure = _failure(alive)
        if failure and replacing:
            failure += "; what ran before still serves"
    return Stage(
        weights=_weights(active, alive),
        engine=replacing if is_active else _engine(active, alive),
        failure=failure,
        unsupported=str(supported.get("message") or "") if supported.get("status") == "False" else "",
    )


def _weights(active: Object, pods: Sequence[Object]) -> str:
    if active.get("status") == "True":
        return ""
    if not pods:
        return "waiting for the controller" if not active else str(active.get("message") or "no Pod yet")
    states = [_download(pod) for pod in pods]
    if not all(states):
        return ""  # one Pod has its weights
    if str(active.get("reason", "")).startswith("Download"):
        return str(active.get("message"))
    return states[0]


def _download(pod: Object) -> str:
    """What the first unfinished init container does; empty if all are done."""
    listed = _at(pod, "spec", "initContainers") or ()
    sidecars = {each.get("name") for each in listed if each.get("restartPolicy") == "Always"}
    wanted = [each.get("name") for each in listed if each.get("name") not in sidecars]
    statuses = {each.get("name"): each for each in _at(pod, "status", "initContainerStatuses") or ()}
    for name in wanted:
        state = (statuses.get(name) or {}).get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        return f"{name}: {_told(state) or 'downloading'}"
    return ""


def _engine(active: Object, pods: Sequence[Object]) -> str:
    for pod in pods:
        if any(
            each.get("type") == "Ready" and each.get("status") == "True"
            for each in _at(pod, "status", "conditions") or ()
        ):
            return "ready; waiting for the Model to become active"
    statuses = [status for pod in pods for status in _statuses(pod)]
    for status in statuses:
        if told := _trouble(status):
            return told
    if any(each.get("name") == _ENGINE and "running" in (each.get("state") or {}) for each in statuses):
        return "loading"
    return str(active.get("message") or "waiting")


def _replacing(workloads: Sequence[Object]) -> str:
    """Which workload still has replicas of a former template; empty if none has."""
    for each in workloads:
        status = _at(each, "status") or {}
        seen, generation = status.get("observedGeneration"), _at(each, "metadata", "generation")
        replicas, updated = status.get("replicas") or 0, status.get("updatedReplicas") or 0
        if replicas > updated or (seen is not None and seen != generation):
            name = _at(each, "metadata", "name")
            return f"replacing what runs: {updated} of {replicas} replicas of {name} are new"
    return ""


def _failure(pods: Sequence[Object]) -> str:
    """How a container fails that was started again and again, with its last words."""
    for pod in pods:
        for status in _statuses(pod):
            if told := _trouble(status):
                last = _last_line(_at(status, "lastState", "terminated", "message"))
                return f"{told}: {last}" if last and last not in told else told
    return ""


def _statuses(pod: Object) -> list[Object]:
    """The states of all containers of a Pod."""
    return [
        *(_at(pod, "status", "initContainerStatuses") or ()),
        *(_at(pod, "status", "containerStatuses") or ()),
    ]


def _trouble(status: Object) -> str:
    """What keeps a container from running; empty if it runs, or did what it should."""
    state = status.get("state") or {}
    ended = state.get("terminated")
    if ended is not None and ended.get("exitCode") == 0:
        return ""
    told, restarts = _told(state), status.get("restartCount") or 0
    return (
        f"{status.get('name')}: {told}{f', restarted {restarts} times' if restarts else ''}" if told else ""
    )


def _told(state: Object) -> str:
    """Why a container waits, or how it ended."""
    waiting, ended = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason") not in _QUIET:
        return f"{waiting.get('reason')} {waiting.get('message') or ''}".strip()
    if ended:
        what = _last_line(ended.get("message")) or ended.get("reason") or ""
        return f"exited with {ended.get('exitCode')} {what}".strip()
    return ""


def _last_line(message: str | None) -> str:
    """What a container left may be the end of its log, where the last line says why it ended."""
    lines = (message or "").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _at(obj: Object, *path: str) -> Any:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


# -- waiting


async def follow(
    client: cluster.Client,
    namespace: str,
    name: str,
    base_url: str | None,
    progress: Progress,
    note: Callable[[str], None] = lambda _: None,
) -> None:
    """Return once the Model answers a request at the gateway; without a gateway, once it is active.

    `note` is told what it waits for. Raises ModelFailed, and ApiError.
    """
    failures, unsupported = _Failures(asyncio.get_running_loop().time), ""
    async for stage in _stages(client, namespace, name):
        _show(stage, progress)
        note(stage.failure or stage.weights or stage.engine)
        if stage.unsupported and stage.unsupported != unsupported:
            unsupported = stage.unsupported
            process.say(f"warning: {unsupported}", err=True)
        if failures.lasts(bool(stage.failure)):
            raise ModelFailed(stage.failure)
        if not stage.failure and not stage.engine:
            break
    if base_url is None:
        return
    async with httpx2.AsyncClient(trust_env=False, timeout=60.0) as http:
        while (told := await _answer(http, base_url, name)) is not None:
            progress.detail("gateway", told)
            note(told)
            await asyncio.sleep(POLL_S)
    progress.done("gateway", base_url)


class _Failures:
    """Tells failures that last from those that the next attempt ends."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first = self._last = -math.inf

    def lasts(self, is_failing: bool) -> bool:
        """Whether the Model has failed for FAILED_FOR_S, and fails now."""
        if not is_failing:
            return False
        now = self._clock()
        if now - self._last > RECOVERED_S:
            self._first = now
        self._last = now
        return now - self._first >= FAILED_FOR_S


async def _stages(client: cluster.Client, namespace: str, name: str) -> AsyncIterator[Stage]:
    model = client.path_of(api.Model.resource, name, namespace)
    pods = client.path_of(api.Pod.resource, "x", namespace).rpartition("/")[0]
    workloads = [
        client.path_of(kind.resource, None, namespace) for kind in (api.Deployment, api.LeaderWorkerSet)
    ]
    query = {"labelSelector": f"{_MODEL_LABEL}={name}"}
    while True:
        try:
            found = msgspec.json.decode((await client.ask("GET", model)).body)
        except cluster.NotFound as error:
            raise ModelFailed("it was deleted") from error
        listed = msgspec.json.decode((await client.ask("GET", pods, query=query)).body)
        known = [each for path in workloads for each in await _known(client, path, query)]
        yield stage_of(found, listed.get("items") or [], known)
        await asyncio.sleep(POLL_S)


async def _known(client: cluster.Client, path: str, query: Mapping[str, str]) -> Sequence[Object]:
    """Objects that the server has and shows; a cluster may have no LeaderWorkerSets."""
    try:
        found = msgspec.json.decode((await client.ask("GET", path, query=query)).body)
    except (cluster.NotFound, cluster.Forbidden):
        return ()
    return found.get("items") or ()


def _show(stage: Stage, progress: Progress) -> None:
    if stage.failure:
        progress.detail("engine" if not stage.weights else "weights", stage.failure)
    elif stage.weights:
        progress.detail("weights", stage.weights)
    else:
        progress.done("weights", "on the machine")
        if stage.engine:
            progress.detail("engine", stage.engine)
        else:
            progress.done("engine", "ready")


async def _answer(http: httpx2.AsyncClient, base_url: str, name: str) -> str | None:
    """Why the model does not answer yet; None if it does, or if it has a reason to refuse this request."""
    body = {"model": name, "prompt": "Hello", "max_tokens": 1}
    try:
        response = await http.post(f"{base_url}/v1/completions", json=body)
    except httpx2.HTTPError as error:
        return f"{base_url}: {error or type(error).__name__}"
    if response.status_code < 500 and response.status_code not in _OF_REQUESTS:
        return None
    return f"{base_url} answers {response.status_code}"
