"""A VariantAutoscaling gets a plan from the requests that gateways have, and the ConfigMaps."""

from __future__ import annotations

from typing import Any

from world_of_scaling import eventually


async def test_replicas_follow_the_requests(planning: Any) -> None:
    """The status and the gauges have what runs and what should run."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    async with planning.running():
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        obj = await planning.get()
        desired = obj.status.desired_optimized_alloc
        assert desired.num_replicas > 1
        assert (desired.accelerator, desired.variant_id) == ("A100", "llama-A100-1")
        current = obj.status.current_alloc
        assert (current.num_replicas, current.max_batch, current.variant_cost) == (1, 4, "40.00")
        assert obj.status.actuation.applied
        await planning.says("MetricsAvailable", "True", "MetricsFound")
        assert "Deployment" in await planning.says("TargetResolved", "True", "TargetFound")
        series = ("web", planning.world.namespace, "A100", "llama-A100-1")
        assert planning.series("inferno_desired_replicas") == {series: desired.num_replicas}
        assert planning.series("inferno_current_replicas") == {series: 1}
        assert planning.series("inferno_desired_ratio") == {series: desired.num_replicas}
        [owner] = (await planning.get()).metadata.owner_references
        assert (owner.kind, owner.name, owner.controller) == ("Deployment", "web", True)
        planning.world.signals["web"]["arrivals"] = 15.0

        async def is_raised() -> bool:
            status = (await planning.get()).status
            return status.desired_optimized_alloc.num_replicas > 5 * desired.num_replicas

        await eventually(is_raised)
        assert (await planning.get()).status.current_alloc.num_replicas == 1


async def test_a_class_may_be_in_a_config_map_of_its_own(planning: Any) -> None:
    """It is followed as long as an object refers to it."""
    await planning.configure()
    await planning.config("mine", {"gold": "{name: Gold, data: [{model: llama, slo-tpot: 9}]}"})
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant(sloClassRef={"name": "mine", "key": "gold"})
    async with planning.running():
        told = await planning.says("OptimizationReady", "False", "OptimizationFailed")
        assert "ITL of 9 ms cannot be met" in told
        await planning.config("mine", {"gold": "{name: Gold, data: [{model: llama, slo-tpot: 90}]}"})
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        await planning.config("mine", None)
        told = await planning.tells("OptimizationReady", "ConfigMap mine has no key gold")
        assert "class Premium of the key premium.yaml is used" in told
        await planning.config("mine", {"gold": "["})
        await planning.says("OptimizationReady", "False", "SLONotFound")
        await planning.variant()
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
