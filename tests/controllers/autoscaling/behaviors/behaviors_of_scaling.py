"""What autoscaling does: workloads follow metrics, between bounds, by cost, and to zero and back.

The same behaviors are tested on the embedded API server and on a real control plane. Numbers such as A4 are
those of the reference cases of the autoscaler.
"""

from __future__ import annotations

import asyncio

from reference_cases import panic
from registered import Behavior, into
from world_of_scaling import AT_ONCE, SETTINGS, World, controlling, eventually

from headgate import api
from headgate.api import marks

BEHAVIORS: list[Behavior] = []
behavior = into(BEHAVIORS)


# --- workloads ------------------------------------------------------------------------------------------


async def _follows(world: World, kind: str) -> None:
    pods = await world.workload(kind=kind, totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding(kind=kind, most=8)
    async with controlling(world.client):
        await world.has(3, kind=kind)
        pods.totals["load"] = 20.0
        await world.has(8, kind=kind)
        said = await world.decides(8)
        assert [each["kind"] for each in said["targets"]] == [kind]
        pods.totals["load"] = 2.0
        await world.has(2, kind=kind)


@behavior
async def a_deployment_follows_its_load(world: World) -> None:
    """Up, to its bound, and down again."""
    await _follows(world, "Deployment")


@behavior
async def a_stateful_set_follows_its_load(world: World) -> None:
    """Up, to its bound, and down again."""
    await _follows(world, "StatefulSet")


@behavior
async def a_leader_worker_set_follows_its_load(world: World) -> None:
    """By the leaders of its groups."""
    await _follows(world, "LeaderWorkerSet")


@behavior
async def replicas_are_written_through_the_scale_subresource(world: World) -> None:
    """So that the write is in the managed fields of the scaler alone, and nothing else is touched."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.has(3)
    path = world.client.path_of(api.Deployment.resource, "web", world.namespace)
    found = await world.client.get_manifest(api.Deployment.resource, "web", world.namespace)
    [ours] = [each for each in found["metadata"]["managedFields"] if each["manager"] == "headgate-autoscaler"]
    assert (ours["subresource"], ours["operation"]) == ("scale", "Update"), path
    assert ours["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


@behavior
async def nothing_is_written_while_nothing_changes(world: World) -> None:
    """A36: neither replicas nor a status."""
    await world.workload(replicas=3, totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.decides(3)
        await world.says("MetricsAvailable", "True", "Measured")

        async def written() -> tuple[int, str]:
            deployment = await world.client.get_manifest(api.Deployment.resource, "web", world.namespace)
            resource = api.AutoscalingPolicyBinding.resource
            binding = await world.client.get_manifest(resource, "b", world.namespace)
            return deployment["metadata"]["generation"], binding["metadata"]["resourceVersion"]

        async def is_steady() -> bool:
            before = await written()
            await asyncio.sleep(10 * SETTINGS.period_s)
            return await written() == before

        await eventually(is_steady)  # once the last status is written
        assert await world.replicas() == 3


@behavior
async def one_name_in_two_namespaces(world: World) -> None:
    """A34: each is scaled by its own Pods."""
    other = await world.new_namespace()
    for namespace, total in ((world.namespace, 2.0), (other, 5.0)):
        await world.workload(totals={"load": total}, namespace=namespace)
        await world.policy(load=1, namespace=namespace)
        await world.binding(namespace=namespace)
    async with controlling(world.client):
        await world.has(2)
        await world.has(5, namespace=other)


@behavior
async def several_targets_by_their_cost(world: World) -> None:
    """A31: the cheaper one gets its maximum before the dearer one gets more than its minimum."""
    await world.workload("h100", 2, totals={"load": 2.0})
    await world.workload("a100", 3, totals={"load": 3.0})
    await world.policy(load=1)
    params = [
        world.target("h100", least=1, most=4, cost=10),
        world.target("a100", least=1, most=3, cost=5),
    ]
    spec = {
        "policyRef": {"name": "p"},
        "optimizerConfiguration": {"params": params, "costExpansionRatePercent": 100},
    }
    await world.put(api.AutoscalingPolicyBinding.resource, "b", spec)
    async with controlling(world.client):
        await world.has(2, "h100")
        await world.has(3, "a100")
        world.pods[world.namespace, "Deployment", "h100"].totals["load"] = 0.5
        world.pods[world.namespace, "Deployment", "a100"].totals["load"] = 1.5
        await world.has(1, "h100")
        await world.has(1, "a100")
        said = await world.decides(2)
        assert [each["name"] for each in said["targets"]] == ["h100", "a100"]


@behavior
async def dearer_targets_come_once_the_next_block_of_the_cheap_one_costs_more(world: World) -> None:
    """7.5: with an expansion rate of 200 %, the cheap one has blocks of 1, 2, 4 and so on."""
    await world.workload("cheap", 1, totals={"load": 6.0})
    await world.workload("dear", 1, totals={"load": 0.0})
    await world.policy(load=1)
    params = [world.target("cheap", most=20, cost=1), world.target("dear", least=0, most=3, cost=3)]
    spec = {
        "policyRef": {"name": "p"},
        "optimizerConfiguration": {"params": params, "costExpansionRatePercent": 200},
    }
    await world.put(api.AutoscalingPolicyBinding.resource, "b", spec)
    async with controlling(world.client):
        await world.has(5, "cheap")
        await world.has(1, "dear")
        world.pods[world.namespace, "Deployment", "cheap"].totals["load"] = 3.0
        await world.has(3, "cheap")
        await world.has(0, "dear")


@behavior
async def several_targets_stay_within_their_bounds(world: World) -> None:
    """A32 and A33: no load leaves the sum of the minima, and any load gives at most that of the maxima."""
    await world.workload("a", 1, values={"load": 100.0})
    await world.workload("b", 2, values={"load": 100.0})
    await world.policy(load=1)
    params = [world.target("a", most=5, cost=10), world.target("b", least=2, most=4, cost=20)]
    spec = {"policyRef": {"name": "p"}, "optimizerConfiguration": {"params": params}}
    await world.put(api.AutoscalingPolicyBinding.resource, "b", spec)
    async with controlling(world.client):
        await world.has(5, "a")
        await world.has(4, "b")
        for pods in world.pods.values():
            pods.values["load"] = 0.0
        await world.has(1, "a")
        await world.has(2, "b")


# --- what gateways tell ---------------------------------------------------------------------------------


@behavior
async def a_workload_follows_what_gateways_tell(world: World) -> None:
    """A15: 44.9 with a target of 3 asks for less than 51 % more than ten replicas, but for more than 49 %."""
    await world.workload(replicas=10)
    await world.server(work_seconds=44.9)
    await world.policy(tolerancePercent=51, **{"headgate:work_seconds": 3})
    await world.binding()
    async with controlling(world.client, world.port):
        await world.says("Ready", "True", "Scaling")
        await world.has(10)
        await world.policy(tolerancePercent=49, **{"headgate:work_seconds": 3})
        await world.has(15)


@behavior
async def a_workload_goes_to_zero_and_comes_back(world: World) -> None:
    """When no request came for the grace period, and as soon as one waits. Gateways learn that they may hold
    requests, and unlearn it with the binding."""
    await world.workload(replicas=1)
    await world.server(idle_s=None, requests_running=1)
    await world.policy(**{"headgate:requests_in_flight": 4})
    await world.binding(least=0, annotations={marks.ZERO_GRACE_PERIOD: "5s"})
    async with controlling(world.client, world.port):
        await world.has(1)
        world.signals["web"] = {"idle_s": 4.0}
        await world.has(1)
        world.signals["web"] = {"idle_s": 6.0}
        await world.has(0)
        assert float((await world.notes())[marks.SCALE_FROM_ZERO]) > 0
        world.signals["web"] = {"requests_waiting": 1, "waiting_for_endpoints": 1}
        await world.has(1)
        await world.client.delete(api.AutoscalingPolicyBinding, "b", world.namespace)

        async def is_unlearned() -> bool:
            return marks.SCALE_FROM_ZERO not in await world.notes()

        await eventually(is_unlearned)


@behavior
async def a_start_that_fails_is_told(world: World) -> None:
    """The pool gets what the container said last, until a Pod is ready."""
    pods = await world.workload(replicas=0, ready=0)
    await world.server(requests_waiting=1, waiting_for_endpoints=1)
    await world.policy(**{"headgate:requests_in_flight": 4})
    await world.binding(least=0, annotations={marks.ZERO_GRACE_PERIOD: "5m"})
    async with controlling(world.client, world.port):
        await world.has(1)
        [pod] = await world.client.list(api.Pod, world.namespace, label_selector="app=web")
        waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        container = {
            "name": "engine",
            "image": "engine:1",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"waiting": waiting},
        }
        # A scheduler without a node for it says again and again that it has none.
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
        status = {"containerStatuses": [container], "conditions": conditions}

        async def is_told() -> bool:
            await world.client.patch_status(api.Pod, pod.metadata.name, world.namespace, status)
            return "no such image" in (await world.notes()).get(marks.START_FAILED, "")

        await eventually(is_told)
        assert "no such image" in await world.says("Ready", "True", "StartFailed")
        pods.ready = None

        async def is_over() -> bool:
            return marks.START_FAILED not in await world.notes()

        await eventually(is_over)


# --- what is kept ---------------------------------------------------------------------------------------


@behavior
async def a_restart_keeps_the_windows(world: World) -> None:
    """A19: what was recommended before the restart still holds replicas after it."""
    window = {**AT_ONCE, "stabilizationWindow": "30m"}
    pods = await world.workload(totals={"load": 6.0})
    await world.policy(load=1, behavior={"scaleUp": {"stablePolicy": AT_ONCE}, "scaleDown": window})
    await world.binding()
    async with controlling(world.client):
        await world.has(6)
        await world.decides(6)
    pods.totals["load"] = 1.0
    async with controlling(world.client):

        async def is_held() -> bool:
            return (await world.status()).get("rule") == "StabilizationWindow"

        await eventually(is_held)
        await world.has(6)
    # Without it, nobody would know that six were recommended: an empty window begins with the current number.
    assert '"highs"' in (await world.status())["history"]


@behavior
async def a_restart_keeps_panic(world: World) -> None:
    """Nothing is removed until it is over, by the clock of before the restart."""
    pods = await world.workload(totals={"load": 6.0})
    await world.policy(load=1, behavior=panic(1000))
    await world.binding()
    async with controlling(world.client):
        await world.has(6)
        until = (await world.decides(6))["panicUntil"]
    pods.totals["load"] = 1.0
    async with controlling(world.client):

        async def is_held() -> bool:
            found = await world.status()
            return (found.get("rule"), found.get("mode")) == ("Panic", "Panic")

        await eventually(is_held)
        await world.has(6)
        assert (await world.status())["panicUntil"] == until


@behavior
async def a_policy_that_changes_keeps_the_windows(world: World) -> None:
    """So that an edit does not scale down at once."""
    window = {**AT_ONCE, "stabilizationWindow": "30m"}
    slowly = {"scaleUp": {"stablePolicy": AT_ONCE}, "scaleDown": window}
    await world.workload(totals={"load": 6.0})
    await world.policy(load=1, behavior=slowly)
    await world.binding()
    async with controlling(world.client):
        await world.has(6)
        await world.policy(load=3, behavior=slowly)

        async def is_held() -> bool:
            return (await world.status()).get("rule") == "StabilizationWindow"

        await eventually(is_held)
        assert await world.replicas() == 6
