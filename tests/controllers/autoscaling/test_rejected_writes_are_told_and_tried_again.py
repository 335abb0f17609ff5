"""What the API server does not let the controller write is said in the status, and written once it may be."""

from __future__ import annotations

from typing import Any

import pytest
from world_of_scaling import World, controlling, eventually

from headgate import cluster
from headgate.api import marks


@pytest.fixture
def rejects(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Exception]:
    """Errors for patches, by what they are for: a subresource, or "" for annotations."""
    found: dict[str, Exception] = {}
    patch = world.client.patch

    async def rejecting(*args: Any, subresource: str = "", **more: Any) -> Any:
        if subresource in found and "field_manager" in more:
            raise found[subresource]
        return await patch(*args, subresource=subresource, **more)

    monkeypatch.setattr(world.client, "patch", rejecting)
    return found


async def test_without_the_right_to_scale(world: World, rejects: dict[str, Exception]) -> None:
    """It is a condition, since only operators read the log of the controller."""
    rejects["scale"] = cluster.Forbidden("deployments.apps is forbidden", status_code=403)
    await world.workload(totals={"load": 3.0})
    await world.policy(load=1)
    await world.binding()
    async with controlling(world.client):
        told = await world.says("Ready", "False", "ScaleRejected")
        assert f"Deployment {world.namespace}/web cannot get 3: deployments.apps is forbidden" in told
        assert "lastScaleTime" not in await world.status()
        assert await world.replicas() == 1
        del rejects["scale"]
        await world.gets(3)
        await world.says("Ready", "True", "Scaling")


async def test_an_annotation_that_could_not_be_written(world: World, rejects: dict[str, Exception]) -> None:
    """The API server was away for a moment: gateways have to know that a request may start the model."""
    rejects[""] = cluster.Unreachable("connection refused")
    await world.workload(replicas=0)
    await world.server(idle_s=9.0)
    await world.policy(**{"headgate:requests_in_flight": 4})
    await world.binding(least=0, annotations={marks.ZERO_GRACE_PERIOD: "1s"})
    tried = rejects[""]
    async with controlling(world.client, world.port):

        async def has_failed() -> bool:
            return tried.__traceback__ is not None

        await eventually(has_failed)
        del rejects[""]

        async def is_noted() -> bool:
            return marks.SCALE_FROM_ZERO in await world.notes()

        await eventually(is_noted)
