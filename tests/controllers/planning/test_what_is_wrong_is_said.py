"""Each broken object says what is wrong with it, and disturbs no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from world_of_scaling import eventually

from headgate import api, cluster

BROKEN = {
    "profile": ({"decode": {"alpha": "x", "beta": "1"}}, "InvalidProfile", 'decodeParms.alpha: "x" is not'),
    "cost": ({"accelerator": "L40S"}, "CostMissing", "has no key L40S"),
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
        "OptimizationFailed",
        "ITL of 24 ms cannot be met",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_one_cause(planning: Any, name: str) -> None:
    """Case 5, and others. The other variant of another workload is planned all the same."""
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
        assert "class Premium of the key premium.yaml is used" in told
        assert (await planning.get()).status.actuation.applied is False


async def test_what_nobody_can_serve_is_told_of_all(planning: Any) -> None:
    """Case 27: each variant of the model has the reason, and keeps what it has."""
    await planning.configure()
    slow = {"alpha": "80", "beta": "1"}
    for name, accelerator in (("web", "A100"), ("web-2", "H100")):
        await planning.world.workload(name, replicas=2)
        await planning.world.server(name, arrivals=1.5, idle_s=None)
        await planning.variant(name, accelerator, decode=slow)
    async with planning.running():
        for name, accelerator in (("web", "A100"), ("web-2", "H100")):
            told = await planning.says("OptimizationReady", "False", "OptimizationFailed", name)
            assert f"{accelerator}: ITL of 24 ms cannot be met" in told
            assert (await planning.get(name)).status.current_alloc.num_replicas == 2
    assert planning.series("inferno_desired_replicas") == {}


async def test_a_name_may_be_in_two_namespaces(planning: Any) -> None:
    """Case 29: both get their own result."""
    await planning.configure()
    world, here = planning.world, planning.world.namespace
    other = await world.new_namespace()
    for namespace, arrivals in ((here, 1.5), (other, 0.0)):
        world.namespace = namespace
        await world.workload(namespace=namespace)
        await planning.variant()
        if namespace == here:
            await world.server(arrivals=arrivals, idle_s=None)
    world.namespace = here
    async with planning.running():
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
        world.namespace = other
        await planning.says("MetricsAvailable", "False", "MetricsMissing")
        await planning.says("OptimizationReady", "False", "MetricsUnavailable")
        world.namespace = here
        assert {key[1] for key in planning.series("inferno_desired_replicas")} == {here}


async def test_all_problems_are_told_at_once(planning: Any) -> None:
    """Those that keep the variant from being planned come first, and then those that do no harm."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant(accelerator="L40S", variantID="llama-A100-1", decode={"alpha": "x", "beta": "y"})
    async with planning.running():
        told = await planning.says("OptimizationReady", "False", "InvalidProfile")
        parts = ('alpha: "x"', 'beta: "y"', "has no key L40S", "llama-L40S-1")
        assert sorted(parts, key=told.index) == list(parts)
        await planning.says("MetricsAvailable", "True", "MetricsFound")
        assert (await planning.get()).status.current_alloc is None


async def test_a_variant_that_misses_the_targets_gets_none_while_another_serves(planning: Any) -> None:
    """Its condition says so, and the replicas that it has stay until the other's are ready."""
    await planning.configure()
    world = planning.world
    for name in ("fit", "unfit"):
        await world.workload(name)
        await world.server(name, arrivals=0.7, idle_s=None)
    await planning.variant("fit")
    await planning.variant("unfit", "H100", decode={"alpha": "80", "beta": "1"})
    async with planning.running():
        told = await planning.says("OptimizationReady", "False", "Infeasible", "unfit")
        assert "H100: ITL of 24 ms cannot be met: an idle replica has 81 ms" in told
        assert "other variants serve llama" in told
        assert "1 replica of H100, only until replicas of other variants are ready; H100" in told
        planned = (await planning.get("fit")).status.desired_optimized_alloc.num_replicas
        deployment = await world.client.get(api.Deployment, "fit", world.namespace)
        await world.client.patch(
            api.Deployment, deployment.metadata.name, world.namespace, {"spec": {"replicas": planned}}
        )
        await planning.plans(0, "unfit")
        told = await planning.says("OptimizationReady", "False", "Infeasible", "unfit")
        assert told.startswith("no replicas of H100; H100: ITL")
        assert (await planning.get("unfit")).status.actuation.applied


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
    """Case 6. Each that is missing or broken is named; once it is mended, the variant is planned at once."""
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    async with planning.running():
        told = await planning.says("OptimizationReady", "False", "SLONotFound")
        for name in ("accelerator-unit-costs", "service-classes-config"):
            assert f"ConfigMap {planning.world.namespace}/{name}: does not exist" in told
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


@pytest.mark.parametrize(
    ("name", "reason"), [("accelerator-unit-costs", "CostMissing"), ("service-classes-config", "SLONotFound")]
)
async def test_a_config_map_that_may_not_be_read_is_told_with_the_missing_rule(
    planning: Any, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    """Instead of a key that it lacks, which it may well have."""
    pages = planning.world.client.pages

    def denied(path: str, selectors: Any = None, *more: Any) -> Any:
        if (selectors or {}).get("fieldSelector") == f"metadata.name={name}":
            raise cluster.Forbidden("configmaps is forbidden", request=f"GET {path}", status_code=403)
        return pages(path, selectors, *more)

    monkeypatch.setattr(planning.world.client, "pages", denied)
    await planning.configure()
    await planning.world.workload("web")
    await planning.world.server("web", arrivals=1.5, idle_s=None)
    await planning.variant("web")
    async with planning.running():
        told = await planning.says("OptimizationReady", "False", reason)
        assert f"{name}: may not be read" in told
        rule = f'apiGroups: [""], resources: [configmaps], resourceNames: [{name}], verbs: [list, watch]'
        assert f"add the rule {{{rule}}} to a Role in namespace {planning.world.namespace}" in told
        assert "has no key" not in told


async def test_a_class_nobody_refers_to_any_longer_is_not_waited_for(
    planning: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ConfigMap may not have been read yet when the only object that refers to it is deleted."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant("short", sloClassRef={"name": "slow-classes", "key": "premium.yaml"})
    client, asked, pages = planning.world.client, asyncio.Event(), planning.world.client.pages

    async def slow(path: str, query: Any, size: int) -> Any:
        if "slow-classes" in str(query):
            asked.set()
            await asyncio.Event().wait()
        async for page in pages(path, query, size):
            yield page

    monkeypatch.setattr(client, "pages", slow)
    async with planning.running():
        await asked.wait()
        await client.delete(api.VariantAutoscaling, "short", planning.world.namespace)
        await planning.variant()
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
