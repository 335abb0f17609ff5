"""A model that may have no replicas goes to zero after its retention, and a request wakes it."""

from __future__ import annotations

from typing import Any

from world_of_scaling import eventually

DIRECT = {"headgate.dev/actuate": "direct"}
ZERO = {"model.llama": "{modelID: llama, enableScaleToZero: true, retentionPeriod: 10m}"}


async def test_a_model_goes_to_zero_and_comes_back(planning: Any) -> None:
    """The status is true at zero as well, and its pool holds requests for a start."""
    await planning.configure(GLOBAL_OPT_INTERVAL="1s")
    await planning.config("model-scale-to-zero-config", ZERO)
    world = planning.world
    await world.workload()
    await world.server(arrivals=0.0, idle_s=100.0)
    await planning.variant(annotations=DIRECT)
    async with planning.running():
        await planning.plans(1)

        async def holds() -> bool:
            return "headgate.dev/scale-from-zero" in await world.notes()

        await eventually(holds)
        world.signals["web"]["idle_s"] = 601.0
        obj = await planning.plans(0)
        assert obj.status.desired_optimized_alloc.accelerator == "A100"
        await world.gets(0)
        series = ("web", world.namespace, "A100", "llama-A100-1")
        assert planning.series("inferno_desired_replicas") == {series: 0}
        world.signals["web"] = {"arrivals": 0.1, "idle_s": None, "waiting_for_endpoints": 1}
        await planning.plans(1)
        await world.gets(1)


async def test_without_the_setting_one_replica_stays(planning: Any) -> None:
    """However long no request comes; and the pool has no annotation."""
    await planning.configure(GLOBAL_OPT_INTERVAL="1s")
    world = planning.world
    await world.workload(replicas=2)
    await world.server(arrivals=0.0, idle_s=100_000.0)
    await planning.variant()
    async with planning.running():
        await planning.plans(1)
        assert "headgate.dev/scale-from-zero" not in await world.notes()


async def test_of_two_variants_the_cheaper_one_stays(planning: Any) -> None:
    """A model keeps one replica, not one of each variant."""
    await planning.configure(GLOBAL_OPT_INTERVAL="1s")
    world = planning.world
    for name in ("cheap", "dear"):
        await world.workload(name)
        await world.server(name, arrivals=0.0, idle_s=100.0)
    await planning.variant("cheap", "A100")
    await planning.variant("dear", "H100")
    async with planning.running():
        await planning.plans(1, "cheap")
        await planning.plans(0, "dear")
