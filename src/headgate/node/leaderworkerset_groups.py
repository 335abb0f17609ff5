"""One group of a LeaderWorkerSet: the Pods that it has, and which ones to delete and create. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headgate import api
from headgate.api import leaderworkersets as lws
from headgate.node import workloads
from headgate.node.leaderworkerset_pods import LeaderWorkerSet

_MAX_PAUSE_S = 60.0
_MAX_FAILURES = 10
"""Further ones are not counted: the pause is at its limit."""

_MOST_MISSING = 100
"""Members that are created at a time, at most: a group may be to have 2**31 - 1."""

ALL = "RecreateGroupOnPodRestart"
"""The restart policy by which the Pods of a group start together."""


_OWNERS = (LeaderWorkerSet.resource.kind, api.Pod.resource.kind)


@dataclass(frozen=True)
class Group:
    """The Pods of a group, including terminating ones."""

    leader: api.Pod | None = None
    workers: Mapping[int, api.Pod] = field(default_factory=dict)
    others: Sequence[api.Pod] = ()
    """Pods of a former group of the same number, which have to go."""

    @property
    def members(self) -> Sequence[api.Pod]:
        return (*((self.leader,) if self.leader else ()), *self.workers.values())

    @property
    def revision(self) -> str:
        return revision_of(self.leader) if self.leader else ""

    def is_ready(self, size: int) -> bool:
        """Whether all of its `size` Pods are ready."""
        members = (self.workers.get(number) if number else self.leader for number in range(size))
        return all(pod is not None and pod.ready for pod in members)


@dataclass(frozen=True)
class Template:
    """The parts of a set's template that decide about Pods."""

    revision: str
    size: int
    recreates_all: bool
    """Whether the whole group is recreated when one of its Pods fails."""
    waits_for_leader: bool
    """Whether workers are created once the leader is ready."""


@dataclass(frozen=True)
class Change:
    """What is to be done with a group."""

    delete: Sequence[api.Pod] = ()
    create: Sequence[int] = ()
    """Numbers of Pods in the group; 0 is the leader."""
    failed: api.Pod | None = None
    """The Pod because of which the whole group is recreated."""


def groups_of(owner: LeaderWorkerSet, pods: Iterable[api.Pod]) -> dict[int, Group]:
    """The groups of a set by number, from the Pods of all sets."""
    found: dict[int, list[api.Pod]] = {}
    for pod in pods:
        labels = pod.metadata.labels
        if pod.metadata.namespace == owner.metadata.namespace and labels.get(lws.NAME) == owner.metadata.name:
            number = labels.get(lws.GROUP_INDEX, "")
            if number.isdecimal():
                found.setdefault(int(number), []).append(pod)
    return {number: _group(owner.metadata.uid, members) for number, members in found.items()}


def change(group: Group, wanted: Template | None) -> Change:
    """The next change of a group; without `wanted`, the group goes."""
    leader, pods = group.leader, (*group.members, *group.others)
    if not pods:
        return Change(create=(0,) if wanted else ())
    failed = _failed(group) if wanted and wanted.recreates_all else None
    is_alive = leader is not None and workloads.is_active(leader)
    if leader is None or wanted is None or not is_alive or failed or group.revision != wanted.revision:
        return Change(delete=[pod for pod in pods if not _is_terminating(pod)], failed=failed)
    stale = [pod for number, pod in group.workers.items() if _is_stale(number, pod, wanted)]
    delete = [pod for pod in (*group.others, *stale) if not _is_terminating(pod)]
    may_create = leader.status.pod_ip and (leader.ready or not wanted.waits_for_leader)
    absent = (number for number in range(1, wanted.size) if number not in group.workers)
    missing = list(itertools.islice(absent, _MOST_MISSING))
    return Change(delete, missing if may_create and not group.others else ())


def revision_of(pod: api.Pod) -> str:
    return pod.metadata.labels.get(lws.REVISION, "")


def _group(owner_uid: str, members: Sequence[api.Pod]) -> Group:
    leader = next((pod for pod in members if _number(pod) == 0 and _owner_uid(pod) == owner_uid), None)
    workers = {
        _number(pod): pod
        for pod in members
        if _number(pod) > 0 and leader is not None and _owner_uid(pod) == leader.metadata.uid
    }
    known = {pod.metadata.uid for pod in (*workers.values(), *((leader,) if leader else ()))}
    others = [pod for pod in members if pod.metadata.uid not in known and _owner_uid(pod)]
    return Group(leader, workers, others)


def _owner_uid(pod: api.Pod) -> str:
    """Empty for a Pod that only has the labels: it belongs to somebody else."""
    owner = workloads.controller_of(pod)
    return owner.uid if owner and owner.kind in _OWNERS else ""


def _number(pod: api.Pod) -> int:
    text = pod.metadata.labels.get(lws.WORKER_INDEX, "")
    return int(text) if text.isdecimal() else -1


def _failed(group: Group) -> api.Pod | None:
    """A Pod that was deleted, has ended, or had a container restarted."""
    return next((pod for pod in group.members if not workloads.is_active(pod) or _has_restarted(pod)), None)


def _has_restarted(pod: api.Pod) -> bool:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(status.restart_count > 0 for status in statuses)


def _is_stale(number: int, pod: api.Pod, wanted: Template) -> bool:
    return pod.ended or number >= wanted.size or revision_of(pod) != wanted.revision


def _is_terminating(pod: api.Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


class Pauses:
    """How long groups that failed repeatedly rest before they are recreated. `now_s` is monotonic."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, int], tuple[int, float]] = {}

    def failed(self, uid: str, group: int, now_s: float) -> None:
        """Note a failure of a set's group. The first one costs no time."""
        count, _ = self._failures.get((uid, group), (0, 0.0))
        pause_s = min(2.0 ** (count - 1), _MAX_PAUSE_S) if count else 0.0
        self._failures[uid, group] = (min(count + 1, _MAX_FAILURES), now_s + pause_s)

    def left_s(self, uid: str, group: int, now_s: float) -> float:
        _, until_s = self._failures.get((uid, group), (0, 0.0))
        return max(0.0, until_s - now_s)

    def went_well(self, uid: str, group: int) -> None:
        """The next failure is a first one."""
        self._failures.pop((uid, group), None)

    def forget(self, uid: str) -> None:
        """The set is gone."""
        self._failures = {key: value for key, value in self._failures.items() if key[0] != uid}
