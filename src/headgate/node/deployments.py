"""Reconciles Deployments: one ReplicaSet for each template, sized step by step."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headgate import api, cluster
from headgate.api import marks
from headgate.node import deployment_plan, deployment_status, workloads
from headgate.node.workloads import DESIRED, Deployment, ReplicaSet

log = logging.getLogger(__name__)

_RETRY_S = 5.0
"""Retry delay after a ReplicaSet could not be created; the status has the reason."""

_NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    marks.REVISION,
    DESIRED,
    marks.MANIFEST_HASH,
)


@dataclass(frozen=True)
class _Member:
    """A ReplicaSet of the Deployment with its Pods."""

    replica_set: ReplicaSet
    counts: workloads.Counts
    pods: int

    @property
    def view(self) -> deployment_plan.SetView:
        metadata = self.replica_set.metadata
        desired = metadata.annotations.get(DESIRED, "")
        return deployment_plan.SetView(
            metadata.name,
            self.replica_set.spec.replicas,
            self.counts.available,
            self.pods,
            int(desired) if desired.isdecimal() else None,
        )


class DeploymentController:
    """Follows Deployments, their ReplicaSets and Pods; `run` works until cancelled."""

    def __init__(
        self,
        client: cluster.Client,
        events: cluster.EventRecorder,
        deployments: cluster.Informer[Deployment],
        sets: cluster.Informer[ReplicaSet],
        pods: cluster.Informer[api.Pod],
    ) -> None:
        self._client = client
        self._events = events
        self._deployments = deployments
        self._sets = sets
        self._pods = pods
        self._queue: cluster.WorkQueue[api.ObjectKey] = cluster.WorkQueue()
        self._overlay: workloads.Overlay[ReplicaSet] = workloads.Overlay()

    async def run(self) -> None:
        for informer in (self._deployments, self._sets, self._pods):
            await informer.wait_synced()
        ends = [
            self._deployments.subscribe(lambda change: self._queue.add(change.object.metadata.key)),
            self._sets.subscribe(lambda change: self._heard_set(change.object)),
            self._pods.subscribe(self._heard_pod),
        ]
        try:
            await cluster.run_workers(self._queue, self._reconcile)
        finally:
            for end in ends:
                end()

    def _heard_set(self, replica_set: ReplicaSet) -> None:
        owner = workloads.controller_of(replica_set)
        if owner is not None and owner.kind == Deployment.resource.kind:
            self._queue.add(api.ObjectKey(replica_set.metadata.namespace, owner.name))

    def _heard_pod(self, change: cluster.Change[api.Pod]) -> None:
        owner = workloads.controller_of(change.object)
        replica_set = owner and self._sets.get(change.object.metadata.namespace, owner.name)
        if replica_set:
            self._heard_set(replica_set)

    async def _reconcile(self, key: api.ObjectKey) -> float | None:
        deployment = self._deployments.get(*key)
        if deployment is None or deployment.metadata.deletion_timestamp is not None:
            return None
        wanted = deployment_plan.wish(deployment.spec)
        members = self._members(deployment)
        new = _newest(deployment, members)
        begun = failure = None
        if new is None and not wanted.paused:
            try:
                new = await self._create_set(deployment, members)
            except cluster.ApiError as error:
                failure = str(error)
            else:
                begun = deployment_status.CREATED
                members.append(new)
        elif new is not None and await self._take_revision(deployment, new, members):
            begun = deployment_status.FOUND
        if failure is None:
            await self._resize(deployment, wanted, new, members)
            await self._clean_up(deployment, new, members)
        again_s = await self._report(deployment, wanted, new, members, begun, failure)
        return again_s if failure is None else _RETRY_S

    def _members(self, deployment: Deployment) -> list[_Member]:
        """The Deployment's sets, oldest first."""
        uid = deployment.metadata.uid
        pods = self._pods.items()
        found = []
        for replica_set in self._overlay.over(self._sets.items()):
            owner = workloads.controller_of(replica_set)
            if owner is None or owner.uid != uid or replica_set.metadata.deletion_timestamp is not None:
                continue
            found.append(_member(deployment, replica_set, workloads.owned_by(replica_set.metadata.uid, pods)))
        return sorted(found, key=lambda member: (_revision(member), member.replica_set.metadata.age_order))

    # ReplicaSets

    async def _create_set(self, deployment: Deployment, members: Sequence[_Member]) -> _Member:
        """Create the set of the Deployment's template, empty at first; the plan sets its size."""
        template = deployment.spec.template
        label = workloads.content_hash(template)
        revision = 1 + max((_revision(member) for member in members), default=0)
        metadata = deployment.metadata
        selector = msgspec.to_builtins(deployment.spec.selector)
        with_label = workloads.with_hash(template, label)
        manifest: dict[str, Any] = {
            "apiVersion": ReplicaSet.resource.api_version,
            "kind": ReplicaSet.resource.kind,
            "metadata": {
                "name": f"{metadata.name}-{label}",
                "namespace": metadata.namespace,
                "labels": with_label["metadata"]["labels"],
                "annotations": _annotations(deployment, revision),
                "ownerReferences": [workloads.owner_reference(deployment)],
            },
            "spec": {
                "replicas": 0,
                "minReadySeconds": deployment.spec.min_ready_seconds,
                "selector": {
                    **selector,
                    "matchLabels": {**selector.get("matchLabels", {}), marks.POD_TEMPLATE_HASH: label},
                },
                "template": with_label,
            },
        }
        created = msgspec.convert(await self._client.create_manifest(manifest), ReplicaSet)
        self._overlay.wrote(created)
        await self._note_revision(deployment, revision)
        return _member(deployment, created, [])

    async def _take_revision(self, deployment: Deployment, new: _Member, members: Sequence[_Member]) -> bool:
        """Give the current set the highest revision; True if a rollback made an old set the newest again."""
        highest = max(_revision(member) for member in members)
        revision = _revision(new)
        behind = revision < highest or (revision == highest and members[-1] is not new)
        if behind:
            revision = highest + 1
            metadata = new.replica_set.metadata
            patch = {"metadata": {"annotations": _annotations(deployment, revision)}}
            self._overlay.wrote(
                await self._client.patch(ReplicaSet, metadata.name, metadata.namespace, patch)
            )
        await self._note_revision(deployment, revision)
        return behind

    async def _note_revision(self, deployment: Deployment, revision: int) -> None:
        if deployment.metadata.annotations.get(marks.REVISION) == str(revision):
            return
        metadata = deployment.metadata
        patch = {"metadata": {"annotations": {marks.REVISION: str(revision)}}}
        await self._client.patch(Deployment, metadata.name, metadata.namespace, patch)

    async def _resize(
        self,
        deployment: Deployment,
        wanted: deployment_plan.Wish,
        new: _Member | None,
        members: list[_Member],
    ) -> None:
        old = [member.view for member in members if member is not new]
        sizes = deployment_plan.plan(wanted, new.view if new else None, old)
        for member in members:
            size, view = sizes[member.view.name], member.view
            if size != view.desired or (size and view.sized_for != wanted.replicas):
                await self._size(deployment, member, size, wanted.replicas)

    async def _size(self, deployment: Deployment, member: _Member, size: int, sized_for: int) -> None:
        metadata = member.replica_set.metadata
        patch = {
            "metadata": {"annotations": {DESIRED: str(sized_for)}},
            "spec": {"replicas": size, "minReadySeconds": deployment.spec.min_ready_seconds},
        }
        changed = await self._client.patch(ReplicaSet, metadata.name, metadata.namespace, patch)
        self._overlay.wrote(changed)
        before = member.replica_set.spec.replicas
        if size != before:
            way = "up" if size > before else "down"
            message = f"Scaled {way} replica set {metadata.name} from {before} to {size}"
            self._events.record(deployment, cluster.EventType.NORMAL, "ScalingReplicaSet", message)

    async def _clean_up(
        self, deployment: Deployment, new: _Member | None, members: Sequence[_Member]
    ) -> None:
        """Delete the oldest revisions above the limit."""
        idle = [
            member.replica_set.metadata
            for member in members
            if member is not new and member.replica_set.spec.replicas == 0 and member.pods == 0
        ]
        surplus = max(0, len(idle) - deployment.spec.revision_history_limit)
        for metadata in idle[:surplus]:
            await self._client.delete(ReplicaSet, metadata.name, metadata.namespace, uid=metadata.uid)
            self._overlay.removed(metadata.uid)

    # Status

    async def _report(
        self,
        deployment: Deployment,
        wanted: deployment_plan.Wish,
        new: _Member | None,
        members: Sequence[_Member],
        begun: str | None,
        failure: str | None,
    ) -> float | None:
        wall_s = time.time()
        waits = [wait for member in members if (wait := member.counts.next_available_s) is not None]
        total = workloads.Counts(
            sum(member.counts.replicas for member in members),
            sum(member.counts.ready for member in members),
            sum(member.counts.available for member in members),
            min(waits, default=None),
        )
        seen = deployment_status.Rollout(
            wanted,
            total,
            new.counts.replicas if new else 0,
            new.replica_set.metadata.name if new else None,
            begun,
            failure,
        )
        status = deployment_status.status(deployment, seen, wall_s)
        metadata = deployment.metadata
        if msgspec.convert(status, api.DeploymentStatus) != deployment.status:
            await self._client.patch_status(Deployment, metadata.name, metadata.namespace, status)
        later = (total.next_available_s, deployment_status.deadline_in_s(deployment, wall_s))
        return min((each for each in later if each is not None and each > 0), default=None)


def _member(deployment: Deployment, replica_set: ReplicaSet, pods: Sequence[api.Pod]) -> _Member:
    counts = workloads.count(pods, deployment.spec.min_ready_seconds, time.time())
    return _Member(replica_set, counts, len(pods))


def _newest(deployment: Deployment, members: Sequence[_Member]) -> _Member | None:
    """The set with the Deployment's template, whatever its name."""
    wanted = workloads.content_hash(deployment.spec.template)
    same = (each for each in members if workloads.content_hash(each.replica_set.spec.template) == wanted)
    return next(same, None)


def _revision(member: _Member) -> int:
    text = member.replica_set.metadata.annotations.get(marks.REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _annotations(deployment: Deployment, revision: int) -> dict[str, str]:
    """Annotations of a revision, shown by `kubectl rollout history`, and its number."""
    kept = {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED}
    return {**kept, marks.REVISION: str(revision)}
