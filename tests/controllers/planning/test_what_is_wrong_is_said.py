"""Each broken object says what is wrong with it, and disturbs no other."""

from __future__ import annotations

from typing import Any

import pytest
from world_of_scaling import eventually

from headgate import api

BROKEN = {
    "profile": ({"decode": {"alpha": "x", "beta": "1"}}, "InvalidProfile", 'decodeParms[alpha]: "x" is not'),
    "cost": ({"accelerator": "L40S"}, "CostMissing", 'has no cost for "L40S"'),
    "model": ({"modelID": "other"}, "SLONotFound", "class Premium"),
    "accelerator": ({"accelerator": "A"}, "InvalidConfiguration", "at least 2 characters"),
    "objective": (
        {
            "modelID": "slow",
            "variantProfile": {
                "maxBatchSize": 4,
                "perfParms": {
                    "decodeParms": {"alpha": "80", "beta": "1"},
                    "prefillParms": {"gamma": "1", "delta": "0"},
                },
            },
        },
        "Infeasible",
        "ITL of 24 ms cannot be met",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_one_cause(planning: Any, name: str) -> None:
    """The other variant of another workload is planned all the same."""
    spec, reason, told = BROKEN[name]
    await planning.configure()
    for each in ("web", "good"):
        await planning.world.workload(each)
        await planning.world.server(each, arrivals=1.5, idle_s=None)
    await planning.variant("web", **spec)
    await planning.variant("good", sloClassRef={"name": "service-classes-config", "key": "gold"})
    async with planning.running():
        assert told in await planning.says("OptimizationReady", "False", reason)
        told = await planning.says("OptimizationReady", "True", "OptimizationSucceeded", "good")
        assert "class Premium is used" in told
        assert (await planning.get()).status.actuation.applied is False


async def test_a_missing_workload_is_waited_for(planning: Any) -> None:
    """The condition names it, and there is no gauge until it is there."""
    await planning.configure()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    async with planning.running():
        assert "/web" in await planning.says("TargetResolved", "False", "TargetNotFound")
        assert planning.series("inferno_desired_replicas") == {}
        await planning.world.workload(kind="StatefulSet")
        assert "StatefulSet" in await planning.says("TargetResolved", "True", "TargetFound")
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")


async def test_config_maps_are_needed(planning: Any) -> None:
    """Each that is missing or broken is named; once it is mended, the variant is planned at once."""
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    async with planning.running():
        told = await planning.says("OptimizationReady", "False", "CostMissing")
        assert f"{planning.world.namespace}/accelerator-unit-costs" in told
        await planning.config("accelerator-unit-costs", {"A100": '{"device": "A", "cost": 40}'})
        await eventually(lambda: _said(planning, '"cost": "40"'))
        await planning.config("accelerator-unit-costs", {"A100": '{"device": "A", "cost": "40"}'})
        await planning.says("OptimizationReady", "False", "SLONotFound")
        await planning.configure()
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")


async def test_unknown_loads_keep_the_last_plan(planning: Any) -> None:
    """The desired replicas and their gauge stay as they are."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    async with planning.running():
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        before = (await planning.get()).status.desired_optimized_alloc.num_replicas
        client = planning.world.client
        await client.delete(api.ModelServer, "web", planning.world.namespace)
        await planning.variant(acceleratorCount=2)  # a change, so that the next pass comes at once
        assert "no ModelServer" in await planning.says("MetricsAvailable", "False", "MetricsMissing")
        await planning.says("OptimizationReady", "False", "MetricsUnavailable")
        status = (await planning.get()).status
        assert status.desired_optimized_alloc.num_replicas == before
        assert status.current_alloc.variant_cost == "80.00"
        assert list(planning.series("inferno_desired_replicas").values()) == [before]


async def _said(planning: Any, text: str) -> bool:
    status = (await planning.get()).status
    return any(text in each.message for each in status.conditions)
