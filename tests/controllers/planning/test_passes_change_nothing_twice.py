"""A pass writes what has changed, and shows nothing of what is gone."""

from __future__ import annotations

import itertools
from typing import Any

from world_of_scaling import eventually

from headgate import api


async def test_the_same_load_writes_nothing(planning: Any) -> None:
    """But for the time of the last run, once a period."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    async with planning.running() as controller:
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        number = itertools.count()

        async def writes_nothing() -> bool:
            version = (await planning.get()).metadata.resource_version
            for _ in range(3):
                passes = controller.figures.passes
                each = {f"model.{next(number)}": "{modelID: other}"}
                await planning.config("model-scale-to-zero-config", each)

                async def is_over(passes: int = passes) -> bool:
                    return controller.figures.passes > passes

                await eventually(is_over)
            return (await planning.get()).metadata.resource_version == version

        await eventually(writes_nothing)  # once the last write is seen


async def test_a_deleted_variant_leaves_no_series(planning: Any) -> None:
    """Also not with the accelerator that it had before."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    async with planning.running():
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        await planning.variant(accelerator="H100")

        async def is_other() -> bool:
            return [key[2] for key in planning.series("inferno_desired_replicas")] == ["H100"]

        await eventually(is_other)
        await planning.world.client.delete(api.VariantAutoscaling, "web", planning.world.namespace)

        async def is_gone() -> bool:
            names = ("inferno_desired_replicas", "inferno_current_replicas", "inferno_desired_ratio")
            return not any(planning.series(each) for each in names)

        await eventually(is_gone)


async def test_a_variant_goes_with_its_workload(planning: Any) -> None:
    """The workload owns it."""
    await planning.configure()
    await planning.world.workload()
    await planning.variant()
    async with planning.running():

        async def is_owned() -> bool:
            return bool((await planning.get()).metadata.owner_references)

        await eventually(is_owned)
        [owner] = (await planning.get()).metadata.owner_references
        deployment = await planning.world.client.get(api.Deployment, "web", planning.world.namespace)
        assert (owner.uid, owner.controller, owner.block_owner_deletion) == (
            deployment.metadata.uid,
            True,
            False,
        )


async def test_events_tell_what_was_planned(planning: Any) -> None:
    """For `kubectl describe`."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    async with planning.running():

        async def is_told() -> bool:
            events = await planning.world.client.list(api.Event, planning.world.namespace)
            return any(each.reason == "ReplicasPlanned" for each in events)

        await eventually(is_told)
