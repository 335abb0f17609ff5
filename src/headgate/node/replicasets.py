"""Reconciles ReplicaSets: creates missing Pods and deletes surplus ones."""

import logging
import time
from collections.abc import Sequence

import msgspec

from headgate import api, cluster
from headgate.node import workloads
from headgate.node.workloads import ReplicaSet

log = logging.getLogger(__name__)

_BURST = 50
"""Maximum Pods created at once; more follow in the next round."""
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class ReplicaSetController:
    """Follows ReplicaSets and Pods; `run` works until cancelled."""

    def __init__(
        self,
        client: cluster.Client,
        events: cluster.EventRecorder,
        sets: cluster.Informer[ReplicaSet],
        pods: cluster.Informer[api.Pod],
    ) -> None:
        self._client = client
        self._events = events
        self._sets = sets
        self._pods = pods
        self._queue: cluster.WorkQueue[api.ObjectKey] = cluster.WorkQueue()
        self._overlay: workloads.Overlay[api.Pod] = workloads.Overlay()

    async def run(self) -> None:
        await self._sets.wait_synced()
        await self._pods.wait_synced()
        ends = [
            self._sets.subscribe(lambda change: self._queue.add(change.object.metadata.key)),
            self._pods.subscribe(self._heard_pod),
        ]
        try:
            await cluster.run_workers(self._queue, self._reconcile)
        finally:
            for end in ends:
                end()

    def _heard_pod(self, change: cluster.Change[api.Pod]) -> None:
        owner = workloads.controller_of(change.object)
        if owner is not None and owner.kind == ReplicaSet.resource.kind:
            self._queue.add(api.ObjectKey(change.object.metadata.namespace, owner.name))

    async def _reconcile(self, key: api.ObjectKey) -> float | None:
        replica_set = self._sets.get(*key)
        if replica_set is None or replica_set.metadata.deletion_timestamp is not None:
            return None
        owned = workloads.owned_by(replica_set.metadata.uid, self._overlay.over(self._pods.items()))
        active = [pod for pod in owned if workloads.is_active(pod)]
        missing = replica_set.spec.replicas - len(active)
        counts = workloads.count(active, replica_set.spec.min_ready_seconds, time.time())
        await self._report(replica_set, counts)
        for _ in range(min(missing, _BURST)):
            await self._create(replica_set)
        for pod in victims(active, -missing):
            await self._delete(replica_set, pod)
        if missing > _BURST:
            self._queue.add(key)
        return workloads.FORGET_AFTER_S if self._overlay.pending else counts.next_available_s

    async def _create(self, replica_set: ReplicaSet) -> None:
        metadata = replica_set.spec.template.get("metadata") or {}
        manifest = {
            **replica_set.spec.template,
            "apiVersion": api.Pod.resource.api_version,
            "kind": api.Pod.resource.kind,
            "metadata": {
                **metadata,
                "generateName": f"{replica_set.metadata.name}-",
                "namespace": replica_set.metadata.namespace,
                "ownerReferences": [workloads.owner_reference(replica_set)],
            },
        }
        try:
            created = msgspec.convert(await self._client.create_manifest(manifest), api.Pod)
        except cluster.ApiError as error:
            self._events.record(replica_set, cluster.EventType.WARNING, "FailedCreate", str(error))
            raise
        self._overlay.wrote(created)
        message = f"Created pod: {created.metadata.name}"
        self._events.record(replica_set, cluster.EventType.NORMAL, "SuccessfulCreate", message)

    async def _delete(self, replica_set: ReplicaSet, pod: api.Pod) -> None:
        metadata = pod.metadata
        try:
            await self._client.delete(api.Pod, metadata.name, metadata.namespace, uid=metadata.uid)
        except (cluster.NotFound, cluster.Conflict):
            log.debug("Pod %s was gone before it was deleted", metadata.key)
        self._overlay.removed(metadata.uid)
        message = f"Deleted pod: {metadata.name}"
        self._events.record(replica_set, cluster.EventType.NORMAL, "SuccessfulDelete", message)

    async def _report(self, replica_set: ReplicaSet, counts: workloads.Counts) -> None:
        status = api.ReplicaSetStatus(
            replicas=counts.replicas,
            fully_labeled_replicas=counts.replicas,
            ready_replicas=counts.ready,
            available_replicas=counts.available,
            observed_generation=replica_set.metadata.generation,
        )
        if status != replica_set.status:
            # Includes zeros: a merge patch keeps omitted fields.
            content = {name: getattr(status, name) for name in status.__struct_fields__}
            renamed = dict(zip(status.__struct_encode_fields__, content.values(), strict=True))
            metadata = replica_set.metadata
            await self._client.patch_status(ReplicaSet, metadata.name, metadata.namespace, renamed)


def victims(pods: Sequence[api.Pod], count: int) -> Sequence[api.Pod]:
    """The Pods to delete: not ready first, then cheapest to delete, then youngest."""
    if count <= 0:
        return ()
    oldest_first = sorted(pods, key=lambda pod: pod.metadata.age_order, reverse=True)
    return sorted(oldest_first, key=lambda pod: (pod.ready, bool(pod.spec.node_name), _cost(pod)))[:count]


def _cost(pod: api.Pod) -> int:
    text = pod.metadata.annotations.get(_DELETION_COST, "0")
    return int(text) if text.removeprefix("-").isdecimal() else 0
