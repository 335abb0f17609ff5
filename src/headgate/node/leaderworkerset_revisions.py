"""The revisions of a LeaderWorkerSet: which one is current, and which one each group is made from. Pure.

They are ControllerRevisions. A rollout's progress is noted on its revision, so that it outlives the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate import api
from headgate.api import leaderworkersets as lws
from headgate.api import marks
from headgate.node import leaderworkerset_pods, workloads
from headgate.node.leaderworkerset_groups import ALL, Group, Template
from headgate.node.leaderworkerset_pods import LeaderWorkerSet, Manifest


@dataclass(frozen=True)
class Revisions:
    """The revisions of a set."""

    current: api.ControllerRevision
    former: Sequence[api.ControllerRevision]
    """The others, oldest first."""
    released: int
    """Groups from this number on are made from the current one."""

    def of_group(self, number: int, group: Group) -> api.ControllerRevision:
        """The revision that a group is to be made from."""
        if number >= self.released or not self.former:
            return self.current
        # A group that is recreated before its release gets the former template.
        return self._with(group.revision) or self.former[-1]

    def made(self, group: Group) -> api.ControllerRevision:
        """The revision that an existing group is made from; the current one if its own is lost."""
        return self._with(group.revision) or self.current

    def _with(self, label: str) -> api.ControllerRevision | None:
        return next((each for each in (*self.former, self.current) if label_of(each) == label), None)


def owned(owner: LeaderWorkerSet, all_: Iterable[api.ControllerRevision]) -> list[api.ControllerRevision]:
    """The revisions of a set, oldest first."""
    uid = owner.metadata.uid
    mine = [each for each in all_ if (by := workloads.controller_of(each)) is not None and by.uid == uid]
    return sorted(mine, key=lambda each: each.revision)


def label_of(revision: api.ControllerRevision) -> str:
    return revision.metadata.labels.get(lws.REVISION, "")


def released_of(revision: api.ControllerRevision) -> int:
    text = revision.metadata.annotations.get(marks.RELEASED_FROM, "0")
    return int(text) if text.isdecimal() else 0


def template(owner: LeaderWorkerSet, revision: api.ControllerRevision) -> Template:
    """What a group of a revision looks like. Raises msgspec.ValidationError."""
    size = leaderworkerset_pods.template_of(revision).size
    recreates_all = owner.spec.leader_worker_template.restart_policy == ALL
    return Template(label_of(revision), size, recreates_all, owner.spec.startup_policy == "LeaderReady")


def manifest(owner: LeaderWorkerSet, number: int, released: int) -> Manifest:
    """The revision of a set as it is now."""
    label = leaderworkerset_pods.revision_of(owner)
    return {
        "apiVersion": api.ControllerRevision.resource.api_version,
        "kind": api.ControllerRevision.resource.kind,
        "metadata": {
            "name": f"{owner.metadata.name}-{label}",
            "namespace": owner.metadata.namespace,
            "labels": {lws.NAME: owner.metadata.name, lws.REVISION: label},
            "annotations": {marks.RELEASED_FROM: str(released)},
            "ownerReferences": [workloads.owner_reference(owner)],
        },
        "revision": number,
        "data": leaderworkerset_pods.revision_data(owner),
    }
