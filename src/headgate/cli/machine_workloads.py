"""Wait until the workloads of a machine run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate import api, cluster
from headgate.cli.progress import Progress

POLL_S = 0.1
WORKLOADS: Final = "workloads"
"""Name of the step."""


class _Pods(NamedTuple):
    """The Pods of a workload."""

    wanted: int
    available: int
    is_current: bool
    """Whether the numbers are of the workload as it is now."""


async def until_available(client: cluster.Client, progress: Progress) -> None:
    """Return once the objects of Models are made, and all Pods that workloads want are available."""
    while True:
        if unmade := [each.metadata.name for each in await client.list(api.Model) if not _is_made(each)]:
            progress.detail(WORKLOADS, f"waiting for the objects of {', '.join(unmade)}")
            await asyncio.sleep(POLL_S)
            continue
        workloads = [
            *map(_of_deployment, await client.list(api.Deployment)),
            *map(_of_groups, await _leader_worker_sets(client)),
        ]
        wanted = sum(each.wanted for each in workloads)
        available = sum(each.available for each in workloads)
        text = f"{available} of {wanted} Pods available" if wanted else "none wanted"
        if all(each.is_current for each in workloads) and available >= wanted:
            progress.done(WORKLOADS, text)
            return
        waiting = await unready_pods(client)
        failing = [line for line in waiting if "BackOff" in line or "NoCommand" in line]
        progress.detail(WORKLOADS, f"{text}; {failing[0]}" if failing else text)
        await asyncio.sleep(POLL_S)


async def unready_pods(client: cluster.Client) -> list[str]:
    """One line for each Pod that is not ready, with the reason that its containers report."""
    return [f"Pod {pod.metadata.key}: {_why(pod)}" for pod in await client.list(api.Pod) if not pod.ready]


def _is_made(model: api.Model) -> bool:
    """Whether the controller has made the objects of this Model, as it is now."""
    return model.status is not None and model.status.observed_generation == model.metadata.generation


async def _leader_worker_sets(client: cluster.Client) -> Sequence[api.LeaderWorkerSet]:
    try:
        return await client.list(api.LeaderWorkerSet)
    except cluster.NotFound:
        return []  # their definition was deleted


def _of_deployment(deployment: api.Deployment) -> _Pods:
    wanted, status = deployment.spec.replicas, deployment.status
    is_current = status.observed_generation >= deployment.metadata.generation
    return _Pods(wanted, min(status.available_replicas, wanted), is_current)


def _of_groups(groups: api.LeaderWorkerSet) -> _Pods:
    """A group counts once all its Pods are ready."""
    wanted, size = groups.spec.replicas, groups.spec.leader_worker_template.size
    ready = min(groups.status.ready_replicas, wanted)
    return _Pods(wanted * size, ready * size, is_current=True)


def _why(pod: api.Pod) -> str:
    for status in pod.status.container_statuses:
        if status.state.waiting is not None:
            return f"{status.state.waiting.reason} {status.state.waiting.message}".strip()
    return pod.status.message or pod.status.phase or "not started"
