"""Tells gateways by annotations of pools that a request may start their Pods, and why a start failed."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
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
BACK_OFF: Final = "CrashLoopBackOff"
_CHANGE: Final = 0.25
"""An expected time is written again if it differs by this part."""
_FAILURES: Final = frozenset(
    (troubles.PODS_REJECTED, troubles.DOWNLOAD_FAILED, troubles.ENGINE_FAILING, troubles.SIDECAR_FAILING)
)


class Failures:
    """Finds out why no Pod of some workloads becomes ready.

    A container may end once, as when it is killed or its node has no memory left: it is started again, and
    requests wait for it. One that ends twice without its Pod being ready between has failed.
    """

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        """How often containers of each Pod had ended when it was last ready, by UID."""

    def told(self, found: Iterable[Found], never_ready: Collection[str]) -> str:
        """The worst failure of a binding's targets; see `told_of`."""
        return self.told_of([pod for each in found for pod in each.pods], never_ready)

    def told_of(self, pods: Sequence[api.Pod], never_ready: Collection[str]) -> str:
        """The worst failure, as far as one says why; empty while a Pod is ready. `never_ready` has the names
        of Pods that are known to have failed from the beginning."""
        before, self._ends = self._ends, {}
        known = []
        for pod in pods:
            uid, ends = pod.metadata.uid, _ends(pod)
            unknown = 0 if pod.metadata.name in never_ready else ends
            self._ends[uid] = ends if pod.ready else before.get(uid, unknown)
            is_over = ends - self._ends[uid] > 1 or not _has_failed(pod)
            if is_over and (trouble := troubles.of_pod(_known(pod))) is not None:
                known.append(trouble)
        if any(pod.ready for pod in pods):
            return ""
        worst = troubles.worst(each for each in known if each.reason in _FAILURES)
        return marks.failure_text(worst.message) if worst is not None else ""


def _statuses(pod: api.Pod) -> Iterable[api.ContainerStatus]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _ends(pod: api.Pod) -> int:
    """How often containers of a Pod have failed."""
    return sum(each.restart_count + (_is_down(each) and _failed(each)) for each in _statuses(pod))


def _has_failed(pod: api.Pod) -> bool:
    return any(_failed(each) for each in _statuses(pod))


def _is_down(status: api.ContainerStatus) -> bool:
    """Whether it has ended, and its next start is not counted yet."""
    waiting = status.state.waiting
    return status.state.terminated is not None or (waiting is not None and waiting.reason == BACK_OFF)


def _failed(status: api.ContainerStatus) -> bool:
    """Whether its last run ended with an error."""
    ended = status.state.terminated or status.last_state.terminated
    return ended is not None and ended.exit_code != 0


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
        except (cluster.Forbidden, cluster.Invalid):
            raise  # it would be so again
        except BaseException:
            self._tried.pop(ref, None)
            raise


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
