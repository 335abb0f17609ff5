"""Which bindings scale, who decides when several objects want to, and what is told about it.

The same behaviors are tested on the embedded API server and on a real control plane. Numbers such as A4 are
those of the reference cases of the autoscaler.
"""

from __future__ import annotations

import asyncio

from registered import Behavior, into
from world_of_scaling import World, controlling, eventually

from headgate import api
from headgate.api import horizontal, llmd

BEHAVIORS: list[Behavior] = []
behavior = into(BEHAVIORS)


# --- who decides ----------------------------------------------------------------------------------------


@behavior
async def the_older_of_two_bindings_scales(world: World) -> None:
    """The younger one says so, and goes on when the older one is gone."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.policy("half", load="0.5")
    await world.binding("old")
    await asyncio.sleep(1.1)  # ages are in seconds
    await world.binding("new", "half")
    async with controlling(world.client):
        told = await world.says("Ready", "False", "Conflict", "new")
        assert "AutoscalingPolicyBinding" in told
        assert f"{world.namespace}/old" in told
        await world.has(3)
        await world.client.delete(api.AutoscalingPolicyBinding, "old", world.namespace)
        await world.has(6)
        await world.says("Ready", "True", "Scaling", "new")


@behavior
async def a_horizontal_autoscaler_that_was_there_first_scales(world: World) -> None:
    """The binding leaves the replicas to it until it is gone."""
    await world.workload(totals={"load": 3.0})
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 5,
    }
    await world.put(horizontal.HorizontalPodAutoscaler.resource, "web", spec)
    await asyncio.sleep(1.1)
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        told = await world.says("Ready", "False", "Conflict")
        assert "HorizontalPodAutoscaler" in told
        await world.has(1)
        await world.client.delete(horizontal.HorizontalPodAutoscaler, "web", world.namespace)
        await world.has(3)


VARIANT = {
    "modelID": "m",
    "variantID": "m-A100-1",
    "accelerator": "A100",
    "acceleratorCount": 1,
    "sloClassRef": {"name": "classes", "key": "premium.yaml"},
    "variantProfile": {
        "maxBatchSize": 4,
        "perfParms": {"decodeParms": {"alpha": "20.58"}, "prefillParms": {"gamma": "5.2"}},
    },
}


@behavior
async def a_variant_that_was_there_first_decides(world: World) -> None:
    """The binding leaves the workload of its name to it."""
    await world.workload(totals={"load": 3.0})
    await world.put(llmd.VariantAutoscaling.resource, "web", VARIANT)
    await asyncio.sleep(1.1)
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        assert "VariantAutoscaling" in await world.says("Ready", "False", "Conflict")
        await world.has(1)


@behavior
async def others_may_change_replicas(world: World) -> None:
    """What a person sets is corrected by the next decision, within the bounds."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding(most=4)
    async with controlling(world.client):
        await world.has(3)
        path = world.client.path_of(api.Deployment.resource, "web", world.namespace, "scale")
        change = {"spec": {"replicas": 9}}
        await world.client.ask("PATCH", path, change, content_type="application/merge-patch+json")
        await world.has(3)


# --- what is wrong --------------------------------------------------------------------------------------


@behavior
async def targets_that_are_missing_are_waited_for(world: World) -> None:
    """The condition names them, and they are scaled once they are there."""
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        told = await world.says("TargetFound", "False", "TargetNotFound")
        assert f"Deployment {world.namespace}/web" in told
        await world.says("Ready", "False", "TargetNotFound")
        await world.workload(totals={"load": 2.0})
        await world.has(2)
        await world.says("TargetFound", "True", "TargetFound")


@behavior
async def kinds_that_cannot_be_scaled_are_refused(world: World) -> None:
    """With the kinds that can."""
    await world.policy(load=1)
    await world.binding(kind="ModelServing")
    async with controlling(world.client):
        told = await world.says("Ready", "False", "KindNotSupported")
        assert "Deployment, StatefulSet, LeaderWorkerSet and Model" in told
        await world.says("TargetFound", "False", "KindNotSupported")


@behavior
async def a_policy_that_is_gone_stops_scaling(world: World) -> None:
    """Replicas stay as they are until there is one again."""
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.has(3)
        await world.client.delete(api.AutoscalingPolicy, "p", world.namespace)
        told = await world.says("Ready", "False", "PolicyNotFound")
        assert f"{world.namespace}/p" in told
        world.pods[world.namespace, "Deployment", "web"].totals["load"] = 5.0
        await world.has(3)
        await world.policy(load=1)
        await world.has(5)


@behavior
async def a_changed_policy_counts_at_once(world: World) -> None:
    """Without a restart of anything."""
    await world.workload(totals={"load": 4.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        await world.has(4)
        await world.policy(load=2)
        await world.has(2)


# --- what is told ---------------------------------------------------------------------------------------


@behavior
async def the_status_explains_the_decision(world: World) -> None:
    """The metric, its value and target, the rule, and a sentence."""
    await world.workload(totals={"load": 30.0})
    await world.policy(load=1)
    await world.binding(most=4)
    async with controlling(world.client):
        await world.has(4)
        await world.says("ScalingLimited", "True", "Maximum")
        said = await world.decides(4)
    assert said["observedGeneration"] == 1
    assert (said["metricName"], said["value"], said["targetValue"]) == ("load", "30", "1")
    assert (said["recommendedReplicas"], said["rule"], said["mode"]) == (30, "Maximum", "Stable")
    assert "load is 30 in total" in said["message"]


@behavior
async def turns_are_told_by_events(world: World) -> None:
    """The first step in each direction, and a bound that is reached."""
    pods = await world.workload(totals={"load": 30.0})
    await world.policy(load=1)
    await world.binding(most=3)
    async with controlling(world.client):
        await world.has(3)
        pods.totals["load"] = 1.0
        await world.has(1)

        async def are_told() -> bool:
            events = await world.client.list(api.Event, world.namespace)
            own = {each.reason for each in events if each.involved_object.name == "b"}
            return {"ScalingUp", "AtMaximum", "ScalingDown"} <= own

        await eventually(are_told)
