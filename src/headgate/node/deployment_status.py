"""A Deployment's rollout status, as `kubectl rollout` reads it. Pure.

`wall_s` is Unix time, because the deadline of a rollout counts from a time in the status itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate import api
from headgate.kubeschema import timestamps
from headgate.node.deployment_plan import Wish
from headgate.node.workloads import Counts, Deployment

AVAILABLE = "NewReplicaSetAvailable"
DEADLINE = "ProgressDeadlineExceeded"
CREATED = "NewReplicaSetCreated"
FOUND = "FoundNewReplicaSet"
_BEGUN = {CREATED: 'Created new replica set "{}"', FOUND: 'Found new replica set "{}"'}
_UPDATED = "ReplicaSetUpdated"
_PAUSED = ("DeploymentPaused", "Deployment is paused")


@dataclass(frozen=True)
class Rollout:
    """The observed state of a Deployment's sets."""

    wish: Wish
    total: Counts
    updated: int
    """Pods of the newest template."""
    new_set: str | None
    begun: str | None = None
    """The reason, if the rollout to `new_set` began with this step."""
    failure: str | None = None
    """Why Pods or sets could not be created."""

    @property
    def complete(self) -> bool:
        replicas = self.wish.replicas
        return self.updated == self.total.replicas == self.total.available == replicas


def status(deployment: Deployment, seen: Rollout, wall_s: float) -> dict[str, Any]:
    """The complete status, including zeros, as a merge patch needs it."""
    total = seen.total
    conditions = [_available(seen), _progressing(deployment, seen, wall_s)]
    if seen.failure is not None:
        conditions.append(_said("ReplicaFailure", "True", "FailedCreate", seen.failure))
    old = {each.type: each for each in deployment.status.conditions}
    return {
        "observedGeneration": deployment.metadata.generation,
        "replicas": total.replicas,
        "updatedReplicas": seen.updated,
        "readyReplicas": total.ready,
        "availableReplicas": total.available,
        "unavailableReplicas": max(0, max(seen.wish.replicas, total.replicas) - total.available),
        "conditions": _dated(conditions, old, timestamps.seconds(wall_s)),
    }


def deadline_in_s(deployment: Deployment, wall_s: float) -> float | None:
    """Seconds until a rollout without progress has failed; None if there is no rollout."""
    known = _known(deployment, "Progressing")
    if known is None or known.status != "True" or known.reason == AVAILABLE or not known.last_update_time:
        return None
    deadline = timestamps.parse(known.last_update_time) + deployment.spec.progress_deadline_seconds
    return max(0.0, deadline - wall_s)


def _available(seen: Rollout) -> api.DeploymentCondition:
    if seen.total.available >= seen.wish.floor:
        message = "Deployment has minimum availability."
        return _said("Available", "True", "MinimumReplicasAvailable", message)
    message = "Deployment does not have minimum availability."
    return _said("Available", "False", "MinimumReplicasUnavailable", message)


def _progressing(deployment: Deployment, seen: Rollout, wall_s: float) -> api.DeploymentCondition:
    known = _known(deployment, "Progressing")
    if seen.wish.paused:
        return _said("Progressing", "Unknown", *_PAUSED)
    if known is not None and known.reason == _PAUSED[0]:
        return _said("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
    if seen.begun is not None:
        return _said("Progressing", "True", seen.begun, _BEGUN[seen.begun].format(seen.new_set))
    if known is not None and known.reason == AVAILABLE and seen.updated == seen.total.replicas:
        # A completed rollout stays complete when the Deployment is scaled or a Pod fails.
        return known
    if seen.complete:
        message = f'ReplicaSet "{seen.new_set}" has successfully progressed.'
        return _said("Progressing", "True", AVAILABLE, message)
    if known is None or _progressed(deployment, seen):
        message = f'ReplicaSet "{seen.new_set}" is progressing.'
        return _said("Progressing", "True", _UPDATED, message)
    if deadline_in_s(deployment, wall_s) == 0.0:
        message = f'ReplicaSet "{seen.new_set}" has timed out progressing.'
        return _said("Progressing", "False", DEADLINE, message)
    return known


def _progressed(deployment: Deployment, seen: Rollout) -> bool:
    """Whether more Pods are new, fewer are old, or more are ready than in the last status."""
    old = deployment.status
    return (
        seen.updated > old.updated_replicas
        or seen.total.replicas - seen.updated < old.replicas - old.updated_replicas
        or seen.total.ready > old.ready_replicas
        or seen.total.available > old.available_replicas
    )


def _known(deployment: Deployment, kind: str) -> api.DeploymentCondition | None:
    return next((each for each in deployment.status.conditions if each.type == kind), None)


def _said(kind: str, holds: Any, reason: str, message: str) -> api.DeploymentCondition:
    return api.DeploymentCondition(type=kind, status=holds, reason=reason, message=message)


def _dated(
    conditions: Sequence[api.DeploymentCondition], old: Mapping[str, api.DeploymentCondition], now: str
) -> list[dict[str, Any]]:
    """Add the times: of the last change of status, and of the last update."""
    return [_with_times(each, old.get(each.type), now) for each in conditions]


def _with_times(
    said: api.DeploymentCondition, old: api.DeploymentCondition | None, now: str
) -> dict[str, Any]:
    same_status = old is not None and old.status == said.status
    # A progress condition is updated each time; any other keeps its time while it is unchanged.
    same = same_status and old is not None and old.reason == said.reason and said.reason != _UPDATED
    updated = said.last_update_time or (old.last_update_time if same and old else now)
    return {
        "type": said.type,
        "status": said.status,
        "reason": said.reason,
        "message": said.message,
        "lastUpdateTime": updated,
        "lastTransitionTime": said.after(old, now).last_transition_time,
    }
