"""A model at zero whose gateways are not known is not ready to scale: nobody would start it."""

from __future__ import annotations

import pytest
from world_of_scaling import World, controlling

from headgate.api import marks


@pytest.mark.parametrize("metric", ["headgate:requests_in_flight", "load"])
async def test_the_binding_says_so(world: World, metric: str) -> None:
    """Until a gateway tells: at zero, metrics of Pods are missing anyway."""
    await world.workload(replicas=0)
    await world.server(idle_s=5.0)
    await world.policy(**{metric: 4})
    await world.binding(least=0, annotations={marks.ZERO_GRACE_PERIOD: "1s"})
    async with controlling(world.client):
        told = await world.says("Ready", "False", "MetricsMissing")
        assert "whether requests wait: no gateway is known" in told
    async with controlling(world.client, world.port):
        await world.says("Ready", "True", "Scaling")
        await world.has(0)
