"""What LeaderWorkerSets do, wherever they run: on the real control plane with LWS's own controller, or on the
embedded API server with the node's.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headgate import api, cluster
from headgate.api import leaderworkersets as lws

PATIENCE_S = 120.0
"""Nothing here takes nearly as long: it only turns a hang into a failure."""
NAME = "ring"
SERVER = """
import os, socket, sys, time
fails_once = os.environ["VERSION"].startswith("/") and os.environ["LWS_WORKER_INDEX"] == "1"
if fails_once and not os.path.exists(os.environ["VERSION"]):
    open(os.environ["VERSION"], "w").close()
    sys.exit(1)
if os.environ["VERSION"] == "never ready":
    time.sleep(600)
with socket.create_server((os.environ["POD_IP"], 8000)) as server:
    print("leader at", os.environ["LWS_LEADER_ADDRESS"], flush=True)
    while True:
        peer, _ = server.accept()
        peer.recv(4096)
        peer.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok")
        peer.close()
"""
READY = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1}


@dataclass(frozen=True)
class World:
    """A place where LeaderWorkerSets run."""

    client: cluster.Client
    namespace: str

    async def create(self, version: str = "1", size: int = 2, **spec: Any) -> None:
        await self.client.create_manifest(manifest(self.namespace, version, size, **spec))

    async def patch(self, **spec: Any) -> None:
        await self.client.patch(api.LeaderWorkerSet, NAME, self.namespace, {"spec": spec})

    async def roll(self, version: str) -> None:
        """Change the template."""
        await self.patch(leaderWorkerTemplate={"workerTemplate": template(version)})

    async def set(self) -> api.LeaderWorkerSet:
        return await self.client.get(api.LeaderWorkerSet, NAME, self.namespace)

    async def pods(self) -> dict[str, api.Pod]:
        found = await self.client.list(api.Pod, self.namespace)
        return {pod.metadata.name: pod for pod in found}

    async def delete_pod(self, name: str) -> None:
        await self.client.delete(api.Pod, name, self.namespace)

    async def until(self, holds: Callable[[dict[str, api.Pod]], bool]) -> dict[str, api.Pod]:
        """The Pods once something holds of them."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(pods := await self.pods()):
            assert time.monotonic() < deadline, {name: pod.status for name, pod in pods.items()}
            await asyncio.sleep(0.1)
        return pods

    async def until_ready(self, *names: str) -> dict[str, api.Pod]:
        """The Pods once these, and no others, are there and ready."""
        return await self.until(
            lambda pods: sorted(pods) == sorted(names) and all(pod.ready for pod in pods.values())
        )

    async def until_set(self, holds: Callable[[api.LeaderWorkerSet], bool]) -> api.LeaderWorkerSet:
        deadline = time.monotonic() + PATIENCE_S
        while not holds(found := await self.set()):
            assert time.monotonic() < deadline, found.status
            await asyncio.sleep(0.1)
        return found


def template(version: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "none",
        "command": ["python3", "-S", "-c", SERVER],
        "env": [
            {"name": "VERSION", "value": version},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "readinessProbe": READY,
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"metadata": {"labels": {"app": NAME}}, "spec": spec}


def manifest(namespace: str, version: str, size: int, **spec: Any) -> dict[str, Any]:
    more = spec.pop("leaderWorkerTemplate", {})
    return {
        "apiVersion": api.LeaderWorkerSet.resource.api_version,
        "kind": "LeaderWorkerSet",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template(version), **more},
            **spec,
        },
    }


def version_of(pod: api.Pod) -> str | None:
    return next(each.value for each in pod.spec.containers[0].env if each.name == "VERSION")


def holding(found: api.LeaderWorkerSet) -> set[str]:
    """The conditions that hold."""
    return {each.type for each in found.status.conditions if each.status == "True"}


def numbers(pods: Sequence[api.Pod]) -> list[tuple[str, str]]:
    keys = (lws.GROUP_INDEX, lws.WORKER_INDEX)
    return sorted((pod.metadata.labels[keys[0]], pod.metadata.labels[keys[1]]) for pod in pods)


async def groups_are_created(world: World) -> None:
    """Each group has a leader and workers, with names, labels, variables and a status."""
    await world.create(replicas=2, size=3)
    pods = await world.until_ready("ring-0", "ring-0-1", "ring-0-2", "ring-1", "ring-1-1", "ring-1-2")
    assert numbers(list(pods.values())) == [(g, w) for g in ("0", "1") for w in ("0", "1", "2")]
    for pod in pods.values():
        assert pod.metadata.labels[lws.NAME] == NAME
        assert pod.metadata.labels["app"] == NAME
        assert pod.metadata.annotations[lws.SIZE] == "3"
        names = [each.name for each in pod.spec.containers[0].env]
        assert names[:3] == [lws.LEADER_ADDRESS, lws.GROUP_SIZE, lws.INDEX_IN_GROUP]
        values = {each.name: each.value for each in pod.spec.containers[0].env}
        assert values[lws.GROUP_SIZE] == "3"
        assert values[lws.INDEX_IN_GROUP] == pod.metadata.labels[lws.WORKER_INDEX]
    assert pods["ring-1-2"].metadata.annotations[lws.LEADER_NAME] == "ring-1"
    keys = [{pods[f"ring-{g}{w}"].metadata.labels[lws.GROUP_KEY] for w in ("", "-1", "-2")} for g in (0, 1)]
    assert len(keys[0]) == len(keys[1]) == 1
    assert keys[0] != keys[1]
    assert len({pod.metadata.labels[lws.REVISION] for pod in pods.values()}) == 1
    found = await world.until_set(lambda each: holding(each) == {"Available"})
    status = found.status
    assert (status.replicas, status.ready_replicas, status.updated_replicas) == (2, 2, 2)
    assert status.hpa_pod_selector == f"{lws.NAME}={NAME},{lws.WORKER_INDEX}=0"


async def the_last_groups_go_first(world: World) -> None:
    """Scaling adds groups after the last, and removes the last ones; the others are left alone."""
    await world.create(replicas=1)
    first = await world.until_ready("ring-0", "ring-0-1")
    await world.patch(replicas=3)
    await world.until_ready("ring-0", "ring-0-1", "ring-1", "ring-1-1", "ring-2", "ring-2-1")
    await world.patch(replicas=1)
    last = await world.until_ready("ring-0", "ring-0-1")
    assert uids(first) == uids(last)
    await world.until_set(lambda each: each.status.replicas == 1 and holding(each) == {"Available"})


async def a_deleted_worker_takes_its_group_along(world: World) -> None:
    """By default the Pods of a group are recreated together; other groups are left alone."""
    await world.create(replicas=2)
    before = await world.until_ready("ring-0", "ring-0-1", "ring-1", "ring-1-1")
    await world.delete_pod("ring-0-1")
    after = await new_pods(world, before, "ring-0", "ring-0-1")
    assert {name for name in before if uids(before)[name] == uids(after)[name]} == {"ring-1", "ring-1-1"}


async def a_deleted_leader_takes_its_group_along(world: World) -> None:
    """Workers never outlive their leader."""
    await world.create(replicas=1)
    before = await world.until_ready("ring-0", "ring-0-1")
    await world.delete_pod("ring-0")
    await new_pods(world, before, "ring-0", "ring-0-1")


async def a_restarted_container_takes_its_group_along(world: World) -> None:
    """A worker whose program has ended cannot join its group again, so that the group starts anew."""
    with tempfile.TemporaryDirectory() as directory:
        await world.create(f"{directory}/failed", replicas=1)
        leaders: set[str] = set()

        def are_new(pods: dict[str, api.Pod]) -> bool:
            leaders.update(pod.metadata.uid for name, pod in pods.items() if name == "ring-0")
            return len(leaders) > 1 and len(pods) == 2 and all(pod.ready for pod in pods.values())

        await world.until(are_new)
    events = await world.client.list(api.Event, world.namespace)
    assert "RecreateGroupOnPodRestart" in {each.reason for each in events}


async def a_worker_is_replaced_alone(world: World) -> None:
    """With the restart policy None, only what is missing is created."""
    await world.create(replicas=1, leaderWorkerTemplate={"restartPolicy": "None"})
    before = await world.until_ready("ring-0", "ring-0-1")
    await world.delete_pod("ring-0-1")
    after = await new_pods(world, before, "ring-0-1")
    assert uids(before)["ring-0"] == uids(after)["ring-0"]


async def workers_wait_for_their_leader(world: World) -> None:
    """With the startup policy LeaderReady, a worker is created once its leader is ready."""
    await world.create(replicas=1, startupPolicy="LeaderReady")
    seen: list[bool] = []

    def is_complete(pods: dict[str, api.Pod]) -> bool:
        if "ring-0-1" in pods:
            seen.append(pods["ring-0"].ready)
        return len(pods) == 2 and all(pod.ready for pod in pods.values())

    await world.until(is_complete)
    assert all(seen)


async def a_new_template_rolls_through_the_groups(world: World) -> None:
    """Groups are replaced one by one from the last, and each as a whole."""
    await world.create(replicas=2)
    await world.until_ready("ring-0", "ring-0-1", "ring-1", "ring-1-1")
    await world.until_set(lambda each: holding(each) == {"Available"})
    await world.roll("2")
    ready: list[int] = []

    def is_rolled_out(pods: dict[str, api.Pod]) -> bool:
        leaders = [pods[name] for name in ("ring-0", "ring-1") if name in pods]
        ready.append(sum(leader.ready for leader in leaders))
        versions = {version_of(pod) for pod in pods.values()}
        return versions == {"2"} and len(pods) == 4 and all(pod.ready for pod in pods.values())

    await world.until(is_rolled_out)
    assert min(ready) == 1
    found = await world.until_set(lambda each: holding(each) == {"Available"})
    assert (found.status.updated_replicas, found.status.ready_replicas) == (2, 2)


async def a_template_is_taken_back(world: World) -> None:
    """A rollout that hangs ends with the former template, and the groups that it had not reached remain."""
    await world.create(replicas=2)
    before = await world.until_ready("ring-0", "ring-0-1", "ring-1", "ring-1-1")
    await world.roll("never ready")
    await world.until(lambda pods: version_of(pods.get("ring-1", pods["ring-0"])) == "never ready")
    await world.roll("1")
    after = await new_pods(world, before, "ring-1", "ring-1-1")
    assert {version_of(pod) for pod in after.values()} == {"1"}
    assert uids(before)["ring-0"] == uids(after)["ring-0"]
    await world.until_set(lambda each: holding(each) == {"Available"})


async def a_partition_keeps_the_first_groups(world: World) -> None:
    """Groups below the partition keep their template, also if they are recreated."""
    limits = {"partition": 1, "maxUnavailable": 1}
    strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": limits}
    await world.create(replicas=2, rolloutStrategy=strategy)
    before = await world.until_ready("ring-0", "ring-0-1", "ring-1", "ring-1-1")
    await world.roll("2")
    mixed = await new_pods(world, before, "ring-1", "ring-1-1")
    assert {name: version_of(pod) for name, pod in mixed.items()} == {
        "ring-0": "1",
        "ring-0-1": "1",
        "ring-1": "2",
        "ring-1-1": "2",
    }
    await world.delete_pod("ring-0")
    again = await new_pods(world, mixed, "ring-0", "ring-0-1")
    assert version_of(again["ring-0"]) == version_of(again["ring-0-1"]) == "1"


async def a_surge_group_serves_meanwhile(world: World) -> None:
    """With maxSurge, a further group comes for the time of the rollout, and goes at its end."""
    limits = {"maxUnavailable": 0, "maxSurge": 1}
    strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": limits}
    wanted = ["ring-0", "ring-0-1", "ring-1", "ring-1-1"]
    await world.create(replicas=2, rolloutStrategy=strategy)
    await world.until_ready(*wanted)
    await world.until_set(lambda each: holding(each) == {"Available"})
    await world.roll("2")
    await world.until(lambda pods: "ring-2" in pods)

    def is_rolled_out(pods: dict[str, api.Pod]) -> bool:
        versions = {version_of(pod) for pod in pods.values()}
        return sorted(pods) == wanted and versions == {"2"} and all(pod.ready for pod in pods.values())

    await world.until(is_rolled_out)


async def a_deletion_leaves_nothing(world: World) -> None:
    """Pods and revisions go with their set."""
    await world.create(replicas=2)
    await world.until_ready("ring-0", "ring-0-1", "ring-1", "ring-1-1")
    await world.client.delete(api.LeaderWorkerSet, NAME, world.namespace)
    await world.until(lambda pods: not pods)
    deadline = time.monotonic() + PATIENCE_S
    while left := await world.client.list(api.ControllerRevision, world.namespace):
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.1)


def uids(pods: dict[str, api.Pod]) -> dict[str, str]:
    return {name: pod.metadata.uid for name, pod in pods.items()}


async def new_pods(world: World, before: dict[str, api.Pod], *names: str) -> dict[str, api.Pod]:
    """The Pods once all are ready again, and these are not those of before."""

    def are_new(pods: dict[str, api.Pod]) -> bool:
        is_whole = sorted(pods) == sorted(before) and all(pod.ready for pod in pods.values())
        return is_whole and all(uids(pods)[name] != uids(before)[name] for name in names)

    return await world.until(are_new)


BEHAVIORS: Sequence[Callable[[World], Awaitable[None]]] = (
    groups_are_created,
    the_last_groups_go_first,
    a_deleted_worker_takes_its_group_along,
    a_deleted_leader_takes_its_group_along,
    a_restarted_container_takes_its_group_along,
    a_worker_is_replaced_alone,
    workers_wait_for_their_leader,
    a_new_template_rolls_through_the_groups,
    a_template_is_taken_back,
    a_partition_keeps_the_first_groups,
    a_surge_group_serves_meanwhile,
    a_deletion_leaves_nothing,
)
