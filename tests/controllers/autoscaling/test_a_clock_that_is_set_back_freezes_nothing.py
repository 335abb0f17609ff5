"""A clock that is set back by a day stops neither decisions nor what is said about them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from world_of_scaling import SETTINGS, World, eventually

from headgate.controllers.autoscaling import AutoscalingController


async def test_statuses_are_written(world: World) -> None:
    """When a status was written last is in the future then."""
    set_back = timedelta()
    await world.workload(totals={"load": 1.0})
    await world.policy(load=1)
    await world.binding()
    controller = AutoscalingController(
        world.client, settings=SETTINGS, clock=lambda: datetime.now(UTC) - set_back
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(controller.run())
        await world.decides(1)
        set_back = timedelta(days=1)
        world.pods[(world.namespace, "Deployment", "web")].totals["load"] = 3.0

        async def is_told() -> bool:
            return (await world.status()).get("currentReplicas") == 3

        await world.gets(3)
        await eventually(is_told)
        running.cancel()
