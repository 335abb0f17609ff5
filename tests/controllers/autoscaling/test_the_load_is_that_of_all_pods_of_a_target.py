"""Labels that say which Pods are measured do not make the others those of another workload."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate import api, cluster
from headgate.api import leaderworkersets
from headgate.controllers.autoscaling.pools import Pools, PoolServer, ref_of
from headgate.controllers.autoscaling.workloads import ScalableDeployment, ScalableLeaderWorkerSet
from headgate.routing.selections import Selections

SERVER = msgspec.convert(
    {
        "metadata": {"name": "s", "namespace": "n"},
        "spec": {"workloadSelector": {"matchLabels": {"pool": "p"}}},
    },
    PoolServer,
)
DEPLOYMENT = msgspec.convert(
    {"metadata": {"name": "d", "namespace": "n"}, "spec": {"selector": {"matchLabels": {"app": "d"}}}},
    ScalableDeployment,
)
GROUPS = msgspec.convert({"metadata": {"name": "g", "namespace": "n"}}, ScalableLeaderWorkerSet)
D: dict[str, str] = {"app": "d"}
G = {leaderworkersets.NAME: "g"}
LEADER, WORKER = G | {leaderworkersets.WORKER_INDEX: "0"}, G | {leaderworkersets.WORKER_INDEX: "1"}


@pytest.mark.parametrize(
    ("target", "pods", "share"),
    [
        (DEPLOYMENT, [D | {"role": "leader"}, D], 1.0),
        (DEPLOYMENT, [D, {"app": "other"}, {"app": "other"}, D], 0.5),
        (DEPLOYMENT, [{"app": "other"}], 0.0),
        (DEPLOYMENT, [], 1.0),
        (GROUPS, [LEADER, WORKER, LEADER, WORKER], 1.0),
        (GROUPS, [LEADER, WORKER, D, D], 0.5),
    ],
)
def test_the_share_of_a_pool(target: Any, pods: list[dict[str, str]], share: float) -> None:
    assert share_of(target, [(labels, READY) for labels in pods]) == share


STARTING = api.PodStatus(phase="Running")
READY = api.PodStatus(phase="Running", conditions=[api.Condition(type="Ready", status="True")])


def test_the_share_of_pods_that_are_not_ready_is_unknown() -> None:
    """What the others do is not what they will have to do: nobody may scale them down for it."""
    others = [({"app": "other"}, READY)]
    assert share_of(DEPLOYMENT, [*others, (D, STARTING)]) is None
    assert share_of(DEPLOYMENT, [*others, (D, STARTING), (D, READY)]) == 0.5
    assert share_of(DEPLOYMENT, [*others, (D, api.PodStatus(phase="Failed"))]) == 0.0
    assert share_of(DEPLOYMENT, [(D, STARTING)]) == 1.0


def share_of(target: Any, pods: list[tuple[dict[str, str], api.PodStatus]]) -> float | None:
    selections: Selections[Any] = Selections(lambda _: None)
    pools = Pools(selections)
    pools.put(cluster.Change(cluster.ChangeKind.ADDED, None, SERVER))
    for number, (labels, status) in enumerate(pods):
        metadata = api.ObjectMeta(name=f"p{number}", namespace="n", labels=labels | {"pool": "p"})
        selections.put(metadata.key, api.Pod(metadata=metadata, status=status))
    return pools.share(ref_of(SERVER), [target.members])
