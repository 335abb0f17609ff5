"""Each object has the load that its model was planned for, for those who may read no more than objects."""

from __future__ import annotations

import asyncio
from typing import Any

from world_of_scaling import eventually

from headgate.api import marks
from headgate.planning import planned_load


async def test_the_planned_load_is_beside_the_object(planning: Any) -> None:
    """It follows clear changes, and the passes that it causes write nothing."""
    await planning.configure()
    await planning.world.workload()
    await planning.world.server(arrivals=1.5, idle_s=None)
    await planning.variant()

    async def noted() -> float:
        note = planned_load.read((await planning.get()).metadata.annotations.get(marks.PLANNED_LOAD))
        return note.requests_per_minute if note is not None else -1.0

    async with planning.running():

        async def is_noted() -> bool:
            return await noted() == 90.0

        await eventually(is_noted)
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded")

        async def nothing_is_written() -> bool:
            version = (await planning.get()).metadata.resource_version
            await asyncio.sleep(1)
            return (await planning.get()).metadata.resource_version == version

        await eventually(nothing_is_written)  # once the last write is seen
        planning.world.signals["web"]["arrivals"] = 15.0

        async def has_risen() -> bool:
            return await noted() > 450.0

        await eventually(has_risen)


async def test_without_a_load_nothing_is_noted(planning: Any) -> None:
    """No pool selects the Pods."""
    await planning.configure()
    await planning.world.workload()
    await planning.variant()
    async with planning.running():
        await planning.says("MetricsAvailable", "False", "MetricsMissing")
        assert marks.PLANNED_LOAD not in (await planning.get()).metadata.annotations
