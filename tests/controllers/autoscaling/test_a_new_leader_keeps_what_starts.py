"""A controller that takes over does not tell gateways that models at zero cannot be started."""

from __future__ import annotations

import asyncio

import msgspec
from world_of_scaling import SETTINGS, World, controlling, eventually

from headgate import api, cluster
from headgate.api import marks
from headgate.controllers.autoscaling import AutoscalingController
from headgate.controllers.autoscaling.scaling import FIELD_MANAGER


class Leadership:
    """That a test gives."""

    def __init__(self) -> None:
        self._given = asyncio.Event()

    def give(self) -> None:
        self._given.set()

    def is_held(self) -> bool:
        return self._given.is_set()

    async def acquired(self) -> None:
        await self._given.wait()


async def leave_behind(world: World, name: str) -> None:
    """The annotation of a binding that went while nobody looked."""
    left = {
        "apiVersion": api.ModelServer.resource.api_version,
        "kind": "ModelServer",
        "metadata": {
            "name": name,
            "namespace": world.namespace,
            "annotations": {marks.SCALE_FROM_ZERO: "60"},
        },
    }
    await world.client.patch(
        api.ModelServer, name, world.namespace, left, cluster.PatchType.APPLY, field_manager=FIELD_MANAGER
    )


async def test_only_pools_without_a_binding_are_swept(world: World) -> None:
    """Whoever waited has run no pass, so it knows no pool with a binding until it has led for a while: pages
    of Pods are read first."""
    await world.workload(totals={"load": 1.0})
    await world.server(requests_running=1)
    await world.server("without", idle_s=9.0)
    await world.policy(**{"headgate:requests_in_flight": 4, "load": 1})
    await world.binding(least=0, annotations={marks.ZERO_GRACE_PERIOD: "1s"})

    async def is_noted() -> bool:
        return marks.SCALE_FROM_ZERO in await world.notes()

    async with controlling(world.client, world.port):
        await eventually(is_noted)
    await leave_behind(world, "without")
    before = await world.client.get(api.ModelServer, "web", world.namespace)

    leadership, ready = Leadership(), asyncio.Event()
    gateways = (f"http://127.0.0.1:{world.port}",)
    settings = msgspec.structs.replace(SETTINGS, gateways=gateways, sweep_s=8.0)
    follower = AutoscalingController(world.client, settings=settings, leadership=leadership)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(follower.run(ready.set))
        await ready.wait()
        await asyncio.sleep(settings.sweep_s + 1)
        leadership.give()

        async def is_swept() -> bool:
            return marks.SCALE_FROM_ZERO not in await world.notes("without")

        await eventually(is_swept)
        running.cancel()
    after = await world.client.get(api.ModelServer, "web", world.namespace)
    assert after.metadata.annotations[marks.SCALE_FROM_ZERO]
    assert after.metadata.resource_version == before.metadata.resource_version
