"""How the backends of Models scale: by cost, and with all their workers.

The same behaviors are tested on the embedded API server and on a real control plane. Numbers such as A31 are
those of the reference cases of the autoscaler.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from registered import Behavior, into
from world_of_scaling import ANY_SPEED, World, controlling

from headgate import api
from headgate.controllers.model import ModelController

BEHAVIORS: list[Behavior] = []
behavior = into(BEHAVIORS)

POLICY = {
    "metrics": [{"metricName": "load", "targetValue": "1"}],
    "tolerancePercent": 0,
    "behavior": ANY_SPEED,
}


def backend(world: World, name: str, least: int, most: int, *workers: Any, **more: Any) -> dict[str, Any]:
    """A backend whose sidecars are at the port of the world's pages."""
    return {
        "name": name,
        "type": "vLLM",
        "modelURI": "hf://org/model",
        "minReplicas": least,
        "maxReplicas": most,
        "env": [{"name": "RUNTIME_PORT", "value": str(world.port)}],
        "workers": list(workers) or [{"type": "server"}],
        **more,
    }


@contextlib.asynccontextmanager
async def modelling(world: World, **spec: Any) -> AsyncIterator[None]:
    """A Model, a controller that makes its workloads, and one that scales them, inside the block."""
    await world.put(api.Model.resource, "m", spec)
    controller, ready = ModelController(world.client, (world.namespace,)), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(controller.run(on_ready=ready.set))
        await ready.wait()
        async with controlling(world.client):
            yield
        running.cancel()


@behavior
async def backends_of_a_model_scale_by_their_cost(world: World) -> None:
    """A31: the cheaper one gets its maximum before the dearer one gets more than its minimum; the Model
    leaves the replicas of both to the autoscaler."""
    backends = [
        backend(world, "h100", 1, 4, scalingCost=10),
        backend(world, "a100", 1, 3, scalingCost=5),
    ]
    async with modelling(world, backends=backends, autoscalingPolicy=POLICY, costExpansionRatePercent=100):
        h100 = await world.adopt("m-h100")
        a100 = await world.adopt("m-a100")
        h100.totals["load"], a100.totals["load"] = 2.0, 3.0
        await world.has(2, "m-h100")
        await world.has(3, "m-a100")
        said = await world.decides(5, "m")
        assert {each["name"]: each["desiredReplicas"] for each in said["targets"]} == {
            "m-h100": 2,
            "m-a100": 3,
        }
        h100.totals["load"], a100.totals["load"] = 0.5, 1.0
        await world.has(1, "m-h100")
        await world.has(1, "m-a100")


@behavior
async def workers_that_prefill_follow_those_that_decode(world: World) -> None:
    """A35: in the proportion of their replicas in the Model, rounded up; none is left alone."""
    workers = [{"type": "prefill", "replicas": 1}, {"type": "decode", "replicas": 4}]
    backends = [
        backend(world, "whole", 1, 1, scalingCost=1),
        backend(world, "split", 0, 4, *workers, type="vLLMDisaggregated", scalingCost=40),
    ]
    async with modelling(world, backends=backends, autoscalingPolicy=POLICY, costExpansionRatePercent=100):
        whole = await world.adopt("m-whole")
        for name in ("m-split-decode", "m-split-prefill"):
            (await world.adopt(name)).totals["load"] = 0.0
        for load, decoding, prefilling in ((8.0, 8, 2), (4.0, 4, 1), (5.0, 5, 2), (0.0, 0, 0)):
            whole.totals["load"] = 1.0 + load
            await world.has(decoding, "m-split-decode")
            await world.has(prefilling, "m-split-prefill")
