"""Decisions about one group of a LeaderWorkerSet: which Pods to delete, and which to create."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate import api
from headgate.api import leaderworkersets as lws
from headgate.node import leaderworkerset_pods, leaderworkerset_revisions
from headgate.node.leaderworkerset_groups import Group, Pauses, Template, change, groups_of
from headgate.node.leaderworkerset_pods import LeaderWorkerSet

OWNER = msgspec.convert(
    {
        "metadata": {"name": "ring", "namespace": "default", "uid": "set"},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": {}}},
    },
    LeaderWorkerSet,
)
TOGETHER = Template("a", 3, recreates_all=True, waits_for_leader=False)
ALONE = Template("a", 3, recreates_all=False, waits_for_leader=False)


def pod(number: int, owner: str = "leader", revision: str = "a", **more: Any) -> api.Pod:
    """A ready Pod of group 0."""
    labels = {lws.NAME: "ring", lws.GROUP_INDEX: "0", lws.WORKER_INDEX: str(number), lws.REVISION: revision}
    kind = "Pod" if number else "LeaderWorkerSet"
    by = {"apiVersion": "v1", "kind": kind, "name": "x", "uid": owner if number else "set"}
    metadata = {
        "name": f"ring-0-{number}" if number else "ring-0",
        "namespace": "default",
        "uid": f"{number}" if number else "leader",
        "labels": labels,
        "ownerReferences": [by | {"controller": True}],
        "deletionTimestamp": more.pop("deleted", None),
    }
    conditions = [{"type": "Ready", "status": str(more.pop("ready", True))}]
    status = {"podIP": "10.0.0.1", "phase": "Running", "conditions": conditions} | more
    return msgspec.convert({"metadata": metadata, "status": status}, api.Pod)


def group(*pods: api.Pod) -> Group:
    return groups_of(OWNER, pods).get(0, Group())


def names(group: Group, wanted: Template | None) -> tuple[list[str], list[int]]:
    found = change(group, wanted)
    return [each.metadata.name for each in found.delete], [*found.create]


RESTARTED = {"containerStatuses": [{"name": "c", "restartCount": 1}]}
RESTARTED_SIDECAR = {"initContainerStatuses": [{"name": "c", "restartCount": 1}]}


def test_the_leader_comes_first_and_then_its_workers():
    """Workers need the address of their leader."""
    assert names(group(), TOGETHER) == ([], [0])
    assert names(group(pod(0, podIP="")), TOGETHER) == ([], [])
    assert names(group(pod(0, ready=False)), TOGETHER) == ([], [1, 2])
    waiting = Template("a", 3, recreates_all=True, waits_for_leader=True)
    assert names(group(pod(0, ready=False)), waiting) == ([], [])
    assert names(group(pod(0), pod(2)), waiting) == ([], [1])


@pytest.mark.parametrize("failure", [{"deleted": "2026-01-01T00:00:00Z"}, RESTARTED, RESTARTED_SIDECAR])
def test_a_failure_ends_the_group(failure: dict[str, Any]):
    """Whatever happens to a worker, the others are deleted, and nothing is created before all are gone."""
    deleted, created = names(group(pod(0), pod(1, **failure), pod(2)), TOGETHER)
    assert deleted == [f"ring-0{w}" for w in ("", "-1", "-2") if "deleted" not in failure or w != "-1"]
    assert created == []
    assert change(group(pod(0), pod(1, **failure)), TOGETHER).failed is not None


def test_without_that_policy_only_what_ended_is_replaced():
    """A restarted container is left alone, an ended Pod is deleted, and created anew when it is gone."""
    assert names(group(pod(0), pod(1, **RESTARTED), pod(2)), ALONE) == ([], [])
    assert names(group(pod(0), pod(1, phase="Failed"), pod(2)), ALONE) == (["ring-0-1"], [])
    assert names(group(pod(0), pod(2)), ALONE) == ([], [1])


def test_workers_of_a_former_leader_go_first():
    """Nobody joins a group before the last member of the former one is gone."""
    mixed = group(pod(0), pod(1, owner="former"), pod(2))
    assert names(mixed, TOGETHER) == (["ring-0-1"], [])
    assert names(group(pod(1), pod(2)), TOGETHER) == (["ring-0-1", "ring-0-2"], [])


def test_a_surplus_or_outdated_group_goes_whole():
    """Scaling down and rolling delete all Pods of a group."""
    whole = group(pod(0), pod(1), pod(2))
    assert names(whole, None) == (["ring-0", "ring-0-1", "ring-0-2"], [])
    assert names(whole, Template("b", 3, recreates_all=True, waits_for_leader=False)) == (
        ["ring-0", "ring-0-1", "ring-0-2"],
        [],
    )
    assert names(whole, TOGETHER) == ([], [])


def test_pods_of_others_are_left_alone():
    """The labels alone make no member."""
    foreign = msgspec.structs.replace(
        pod(1), metadata=api.ObjectMeta(name="x", labels=pod(1).metadata.labels)
    )
    assert names(group(foreign), None) == ([], [])


def test_groups_that_fail_again_and_again_rest():
    """The pause doubles up to a minute, until the group has been ready; other groups are not affected."""
    pauses = Pauses()
    seen = []
    for _ in range(12):
        pauses.failed("set", 0, 100.0)
        seen.append(pauses.left_s("set", 0, 100.0))
    assert seen == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert pauses.left_s("set", 0, 130.0) == 30
    assert pauses.left_s("set", 1, 100.0) == pauses.left_s("other", 0, 100.0) == 0
    pauses.went_well("set", 0)
    pauses.failed("set", 0, 200.0)
    assert pauses.left_s("set", 0, 200.0) == 0


@pytest.mark.parametrize(
    ("size", "policy", "expected"),
    [
        (5, {"subGroupSize": 2}, ["0", "0", "0", "1", "1"]),
        (4, {"subGroupSize": 2}, ["0", "0", "1", "1"]),
        (5, {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}, [None, "0", "0", "1", "1"]),
    ],
)
def test_subgroups_are_numbered_as_in_lws(size: int, policy: dict[str, Any], expected: list[str | None]):
    """A leader that is one too many belongs to the first subgroup, or to none."""
    template = {"workerTemplate": {"spec": {}}, "size": size, "subGroupPolicy": policy}
    owner = msgspec.convert(
        {"metadata": {"name": "ring"}, "spec": {"leaderWorkerTemplate": template}}, LeaderWorkerSet
    )
    revision = msgspec.convert(leaderworkerset_revisions.manifest(owner, 1, 0), api.ControllerRevision)
    made = [
        leaderworkerset_pods.leader(owner, revision, 0),
        *(leaderworkerset_pods.worker(owner, revision, pod(0), 0, n) for n in range(1, size)),
    ]
    assert [each["metadata"]["labels"].get(lws.SUBGROUP_INDEX) for each in made] == expected
    assert len({each["metadata"]["labels"].get(lws.SUBGROUP_KEY) for each in made} - {None}) == 2


def test_variables_come_first_and_win():
    """A variable of the same name in the template is replaced, in init containers as well."""
    container = {"name": "c", "env": [{"name": "A", "value": "1"}, {"name": lws.GROUP_SIZE, "value": "9"}]}
    template = {"workerTemplate": {"spec": {"initContainers": [container], "containers": [container]}}}
    owner = msgspec.convert(
        {"metadata": {"name": "ring"}, "spec": {"leaderWorkerTemplate": template}}, LeaderWorkerSet
    )
    revision = msgspec.convert(leaderworkerset_revisions.manifest(owner, 1, 0), api.ControllerRevision)
    made = leaderworkerset_pods.worker(owner, revision, pod(0), 0, 1)
    for field in ("initContainers", "containers"):
        [found] = made["spec"][field]
        assert [(each["name"], each["value"]) for each in found["env"]] == [
            (lws.LEADER_ADDRESS, "10.0.0.1"),
            (lws.GROUP_SIZE, "1"),
            (lws.INDEX_IN_GROUP, "1"),
            ("A", "1"),
        ]


def test_a_change_of_a_huge_group_is_small():
    """The next one follows when these Pods are there."""
    huge = Template("a", 2**31 - 1, recreates_all=True, waits_for_leader=False)
    assert change(group(pod(0)), huge).create == list(range(1, 101))
    assert not group(pod(0)).is_ready(2**31 - 1)
