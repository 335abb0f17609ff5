"""Tells gateways by annotations of pools that a request may start their Pods, and why a start failed."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate import api, cluster
from headgate.api import marks
from headgate.controllers.autoscaling.observing import Found
from headgate.controllers.autoscaling.pools import KnownPool, ref_of
from headgate.controllers.autoscaling.scaling import FIELD_MANAGER
from headgate.controllers.model import troubles
from headgate.controllers.model.observed import KnownPod, KnownPodStatus

log = logging.getLogger(__name__)

UNKNOWN_START_S: Final = 60.0
"""What a start is expected to take before one was seen."""
_CHANGE: Final = 0.25
"""An expected time is written again if it differs by this part."""
_FAILURES: Final = frozenset(
    (troubles.PODS_REJECTED, troubles.DOWNLOAD_FAILED, troubles.ENGINE_FAILING, troubles.SIDECAR_FAILING)
)


def failure(found: Iterable[Found]) -> str:
    """Why no Pod of any target becomes ready, as far as one says; empty while one is ready."""
    pods = [pod for each in found for pod in each.pods]
    if any(pod.ready for pod in pods):
        return ""
    known = [trouble for pod in pods if (trouble := troubles.of_pod(_known(pod))) is not None]
    worst = troubles.worst(each for each in known if each.reason in _FAILURES)
    return worst.message[: marks.MAX_FAILURE_CHARACTERS] if worst is not None else ""


def notes(expected_s: float | None, failed: str) -> dict[str, str]:
    """The annotations of a pool that starts from zero."""
    seconds = min(math.ceil(UNKNOWN_START_S if expected_s is None else expected_s), int(marks.MAX_START_S))
    found = {marks.SCALE_FROM_ZERO: str(max(seconds, 1))}
    return {**found, marks.START_FAILED: failed} if failed else found


class PoolNotes:
    """Writes these annotations by server-side apply: those of others stay."""

    def __init__(self, client: cluster.Client) -> None:
        self._client = client
        self._tried: dict[api.ObjectRef, tuple[str, Mapping[str, str]]] = {}
        """The version of each pool at the last write, and what was written: others may have their own."""

    async def write(self, pool: KnownPool, wanted: Mapping[str, str]) -> None:
        """Make them so, none to remove them. Raises ApiError other than NotFound and Conflict."""
        ref, version = ref_of(pool), pool.metadata.resource_version
        if not _differ(_noted(pool), wanted):
            self._tried.pop(ref, None)
            return
        if self._tried.get(ref) == (version, wanted):
            return
        self._tried[ref] = (version, wanted)
        metadata: dict[str, Any] = {"name": pool.metadata.name, "namespace": pool.metadata.namespace}
        resource = pool.resource
        patch = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {**metadata, "annotations": dict(wanted), "uid": pool.metadata.uid},
        }
        try:
            await self._client.patch(
                type(pool),
                pool.metadata.name,
                pool.metadata.namespace,
                patch,
                cluster.PatchType.APPLY,
                field_manager=FIELD_MANAGER,
            )
        except cluster.NotFound:
            return
        except cluster.Conflict as error:
            log.info("%s %s is annotated by somebody else: %s", resource.kind, pool.metadata.key, error)


def _noted(pool: KnownPool) -> dict[str, str]:
    known = (marks.SCALE_FROM_ZERO, marks.START_FAILED)
    return {name: pool.metadata.annotations[name] for name in known if name in pool.metadata.annotations}


def _differ(before: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    if before.keys() != wanted.keys() or before.get(marks.START_FAILED) != wanted.get(marks.START_FAILED):
        return True
    if not wanted:
        return False
    try:
        was_s = float(before[marks.SCALE_FROM_ZERO])
    except ValueError:
        return True
    return abs(was_s - float(wanted[marks.SCALE_FROM_ZERO])) > _CHANGE * was_s


def _known(pod: api.Pod) -> KnownPod:
    status = pod.status
    return KnownPod(
        metadata=pod.metadata,
        status=KnownPodStatus(
            phase=status.phase,
            message=status.message,
            reason=status.reason,
            conditions=status.conditions,
            pod_ip=status.pod_ip,
            init_container_statuses=status.init_container_statuses,
            container_statuses=status.container_statuses,
        ),
    )
