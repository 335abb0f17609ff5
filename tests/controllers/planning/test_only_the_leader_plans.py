"""A process that has lost the lease writes nothing, and has no gauges beside those of the next leader."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headgate import api
from headgate.controllers.autoscaling import AutoscalingController, AutoscalingSettings
from headgate.controllers.planning import PlanningController, PlanningSettings


class Lease:
    """Leadership as the test says."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.held.set()

    def is_held(self) -> bool:
        return self.held.is_set()

    async def acquired(self) -> None:
        await self.held.wait()


async def test_a_plan_that_outlasts_the_lease_is_not_written(planning: Any, monkeypatch: Any) -> None:
    """Another process may lead once it is there. With the lease, it is written again."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()
    world, lease = planning.world, Lease()
    settings = AutoscalingSettings(period_s=0.3, signals_s=0.2, gateways=(f"http://127.0.0.1:{world.port}",))
    scaling = AutoscalingController(world.client, settings=settings)
    own = msgspec.structs.replace(PlanningSettings(gather_s=0.05, look_s=0.1), namespace=world.namespace)
    controller = planning.controller = PlanningController(
        world.client, scaling, settings=own, leadership=lease
    )
    run, planned = controller._passes.run, asyncio.Event()

    async def slow(*arguments: Any) -> Any:
        found = await run(*arguments)
        if any(isinstance(each.planned, tuple) for each in found.values()):
            lease.held.clear()
            planned.set()
        return found

    monkeypatch.setattr(controller._passes, "run", slow)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(scaling.run()), tasks.create_task(controller.run())]
        async with asyncio.timeout(30):
            await planned.wait()
            await asyncio.sleep(0.5)
            status = (await planning.get()).status
            assert status is None or status.desired_optimized_alloc is None
            monkeypatch.setattr(controller._passes, "run", run)
            lease.held.set()
            await planning.says("OptimizationReady", "True", "OptimizationSucceeded")
            while not planning.series("inferno_desired_replicas"):
                await asyncio.sleep(0.05)
            lease.held.clear()
            assert planning.series("inferno_desired_replicas") == {}
            assert planning.series("inferno_current_replicas") == {}
        for task in running:
            task.cancel()
    assert isinstance(await planning.get(), api.VariantAutoscaling)
