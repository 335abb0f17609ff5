"""Reconciles LeaderWorkerSets: groups of a leader and workers, created, replaced and removed as one."""

import itertools
import logging
import time
from collections.abc import Mapping

import msgspec

from headgate import api, cluster
from headgate.api import leaderworkersets as lws
from headgate.api import marks
from headgate.node import (
    leaderworkerset_groups,
    leaderworkerset_plan,
    leaderworkerset_pods,
    leaderworkerset_revisions,
    leaderworkerset_status,
    workloads,
)
from headgate.node.leaderworkerset_groups import Group
from headgate.node.leaderworkerset_pods import LeaderWorkerSet
from headgate.node.leaderworkerset_revisions import Revisions

log = logging.getLogger(__name__)

_BURST = 50
"""Maximum Pods created at once; more follow in the next round."""


class LeaderWorkerSetController:
    """Follows LeaderWorkerSets, their revisions and Pods; `run` works until cancelled."""

    def __init__(
        self,
        client: cluster.Client,
        events: cluster.EventRecorder,
        sets: cluster.Informer[LeaderWorkerSet],
        revisions: cluster.Informer[api.ControllerRevision],
        pods: cluster.Informer[api.Pod],
    ) -> None:
        self._client = client
        self._events = events
        self._sets = sets
        self._revisions = revisions
        self._pods = pods
        self._queue: cluster.WorkQueue[api.ObjectKey] = cluster.WorkQueue()
        self._overlay: workloads.Overlay[api.Pod] = workloads.Overlay()
        self._released: dict[str, int] = {}
        """By UID of the revision: what this controller has noted on it, which the informer may show later."""
        self._pauses = leaderworkerset_groups.Pauses()

    async def run(self) -> None:
        for informer in (self._sets, self._revisions, self._pods):
            await informer.wait_synced()
        ends = [
            self._sets.subscribe(self._heard_set),
            self._revisions.subscribe(self._heard_revision),
            self._pods.subscribe(self._heard_pod),
        ]
        try:
            await cluster.run_workers(self._queue, self._reconcile)
        finally:
            for end in ends:
                end()

    def _heard_set(self, change: cluster.Change[LeaderWorkerSet]) -> None:
        metadata = change.object.metadata
        if self._sets.get(metadata.namespace, metadata.name) is None:
            self._pauses.forget(metadata.uid)
        self._queue.add(metadata.key)

    def _heard_revision(self, change: cluster.Change[api.ControllerRevision]) -> None:
        metadata = change.object.metadata
        if self._revisions.get(metadata.namespace, metadata.name) is None:
            self._released.pop(metadata.uid, None)
        self._heard(metadata)

    def _heard_pod(self, change: cluster.Change[api.Pod]) -> None:
        self._heard(change.object.metadata)

    def _heard(self, metadata: api.ObjectMeta) -> None:
        if name := metadata.labels.get(lws.NAME):
            self._queue.add(api.ObjectKey(metadata.namespace, name))

    async def _reconcile(self, key: api.ObjectKey) -> float | None:
        owner = self._sets.get(*key)
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return None
        groups = leaderworkerset_groups.groups_of(owner, self._overlay.over(self._pods.items()))
        revisions = await self._take_revisions(owner, groups)
        seen = self._seen(owner, groups, revisions)
        step = leaderworkerset_plan.plan(seen.wish, seen.groups, revisions.released)
        revisions = await self._release(owner, revisions, step.released)
        again_s = await self._change_all(owner, groups, revisions, step.groups)
        await self._report(owner, seen)
        if seen.is_complete:
            await self._forget_former(revisions)
        return again_s if again_s is not None or not self._overlay.pending else workloads.FORGET_AFTER_S

    def _seen(
        self, owner: LeaderWorkerSet, groups: Mapping[int, Group], revisions: Revisions
    ) -> leaderworkerset_status.Rollout:
        """The groups that have a leader, as the plan and the status see them."""
        views = {}
        current = leaderworkerset_revisions.label_of(revisions.current)
        for number, group in groups.items():
            if group.leader is None:
                continue
            is_ready = group.is_ready(leaderworkerset_revisions.template(owner, revisions.made(group)).size)
            updated = group.revision == current
            views[number] = leaderworkerset_plan.Group(is_ready, updated)
            if is_ready:
                self._pauses.went_well(owner.metadata.uid, number)
        return leaderworkerset_status.Rollout(leaderworkerset_plan.wish(owner.spec), views)

    # Revisions

    async def _take_revisions(self, owner: LeaderWorkerSet, groups: Mapping[int, Group]) -> Revisions:
        """The revisions of a set, of which the current one may be new, or a former one that is taken back."""
        known = leaderworkerset_revisions.owned(owner, self._revisions.items())
        wanted = leaderworkerset_pods.revision_of(owner)
        current = next((each for each in known if leaderworkerset_revisions.label_of(each) == wanted), None)
        highest = known[-1].revision if known else 0
        unreleased = max(groups, default=-1) + 1 if known else 0
        if current is None:
            current = await self._create_revision(owner, highest + 1, unreleased)
        elif current.revision < highest:
            current = await self._note(current, unreleased, {"revision": highest + 1})
        released = leaderworkerset_revisions.released_of(current)
        former = [each for each in known if each.metadata.uid != current.metadata.uid]
        return Revisions(current, former, min(released, self._released.get(current.metadata.uid, released)))

    async def _create_revision(
        self, owner: LeaderWorkerSet, number: int, released: int
    ) -> api.ControllerRevision:
        manifest = leaderworkerset_revisions.manifest(owner, number, released)
        name = manifest["metadata"]["name"]
        try:
            created = await self._client.create_manifest(manifest)
        except cluster.AlreadyExists:  # the informer has not shown it yet
            return await self._client.get(api.ControllerRevision, name, owner.metadata.namespace)
        self._events.record(owner, cluster.EventType.NORMAL, "CreatingRevision", f"Created revision {name}")
        return msgspec.convert(created, api.ControllerRevision)

    async def _release(self, owner: LeaderWorkerSet, revisions: Revisions, released: int) -> Revisions:
        if released == revisions.released:
            return revisions
        current = await self._note(revisions.current, released)
        message = f"Updating groups from {owner.metadata.name}-{released} on"
        self._events.record(owner, cluster.EventType.NORMAL, "GroupsUpdating", message)
        return Revisions(current, revisions.former, released)

    async def _note(
        self, revision: api.ControllerRevision, released: int, changes: Mapping[str, int] | None = None
    ) -> api.ControllerRevision:
        metadata = revision.metadata
        patch = {"metadata": {"annotations": {marks.RELEASED_FROM: str(released)}}, **(changes or {})}
        noted = await self._client.patch(api.ControllerRevision, metadata.name, metadata.namespace, patch)
        self._released[metadata.uid] = released
        return noted

    async def _forget_former(self, revisions: Revisions) -> None:
        for metadata in (each.metadata for each in revisions.former):
            try:
                await self._client.delete(
                    api.ControllerRevision, metadata.name, metadata.namespace, uid=metadata.uid
                )
            except (cluster.NotFound, cluster.Conflict):
                log.debug("revision %s was gone before it was deleted", metadata.key)

    # Pods

    async def _change_all(
        self, owner: LeaderWorkerSet, groups: Mapping[int, Group], revisions: Revisions, size: int
    ) -> float | None:
        """Change each group; returns when the next change is due by time alone."""
        left, pauses, now_s = _BURST, [], time.monotonic()
        surplus = sorted(number for number in groups if number >= size)
        for number in itertools.chain(range(size), surplus):
            group = groups.get(number, Group())
            revision = revisions.of_group(number, group)
            wanted = leaderworkerset_revisions.template(owner, revision) if number < size else None
            change = leaderworkerset_groups.change(group, wanted)
            if change.failed is not None and change.delete:
                self._note_failure(owner, number, change.failed)
            for pod in change.delete:
                await self._delete(owner, pod)
            pause_s = self._pauses.left_s(owner.metadata.uid, number, now_s) if 0 in change.create else 0.0
            if pause_s:
                pauses.append(pause_s)
                continue
            for member in change.create[:left]:
                await self._create(owner, revision, group, number, member)
            left -= len(change.create)
            if left < 0:
                return 0.0
        return min(pauses, default=None)

    def _note_failure(self, owner: LeaderWorkerSet, number: int, failed: api.Pod) -> None:
        self._pauses.failed(owner.metadata.uid, number, time.monotonic())
        message = f"Recreating group {number}: Pod {failed.metadata.name} was deleted or restarted"
        self._events.record(owner, cluster.EventType.NORMAL, "RecreateGroupOnPodRestart", message)

    async def _create(
        self,
        owner: LeaderWorkerSet,
        revision: api.ControllerRevision,
        group: Group,
        number: int,
        member: int,
    ) -> None:
        if group.leader is None:
            manifest = leaderworkerset_pods.leader(owner, revision, number)
        else:
            manifest = leaderworkerset_pods.worker(owner, revision, group.leader, number, member)
        try:
            created = msgspec.convert(await self._client.create_manifest(manifest), api.Pod)
        except cluster.ApiError as error:
            self._events.record(owner, cluster.EventType.WARNING, "FailedCreate", str(error))
            raise
        self._overlay.wrote(created)
        message = f"Created pod: {created.metadata.name}"
        self._events.record(owner, cluster.EventType.NORMAL, "GroupsProgressing", message)

    async def _delete(self, owner: LeaderWorkerSet, pod: api.Pod) -> None:
        metadata = pod.metadata
        try:
            await self._client.delete(api.Pod, metadata.name, metadata.namespace, uid=metadata.uid)
        except (cluster.NotFound, cluster.Conflict):
            log.debug("Pod %s was gone before it was deleted", metadata.key)
        message = f"Deleted pod: {metadata.name}"
        self._events.record(owner, cluster.EventType.NORMAL, "GroupsProgressing", message)

    # Status

    async def _report(self, owner: LeaderWorkerSet, seen: leaderworkerset_status.Rollout) -> None:
        status = leaderworkerset_status.status(owner, seen, time.time())
        if msgspec.convert(status, api.LeaderWorkerSetStatus) != owner.status:
            metadata = owner.metadata
            await self._client.patch_status(LeaderWorkerSet, metadata.name, metadata.namespace, status)
