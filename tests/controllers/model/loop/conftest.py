"""A controller of Models at work on a real embedded API server, on which the tests are the kubelet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from headgate import api, cluster
from headgate.controllers.model import ModelController

DEPLOYMENT = api.Deployment.resource
LIMIT_S = 60.0


@dataclass
class Lab:
    """The server, and what the tests ask of it. Everything is in the namespace default."""

    client: cluster.Client
    controller: ModelController

    async def model(
        self, *backends: dict[str, Any], name: str = "m", called: str | None = None, **spec: Any
    ) -> None:
        """Create or change the Model; `called` is its public name."""
        own = {} if called is None else {"name": called}
        whole = {"backends": list(backends), **own, **spec}
        if await self.get(api.Model, name) is not None:
            change = [{"op": "replace", "path": "/spec", "value": whole}]
            await self.client.patch(api.Model, name, "default", change, cluster.PatchType.JSON)
            return
        await self.client.create_manifest(
            {
                "apiVersion": api.Model.resource.api_version,
                "kind": "Model",
                "metadata": {"name": name, "namespace": "default"},
                "spec": whole,
            }
        )

    async def get(self, kind: type[Any], name: str) -> dict[str, Any] | None:
        """The whole object; None if it does not exist."""
        try:
            return await self.client.get_manifest(kind.resource, name, "default")
        except cluster.NotFound:
            return None

    async def there(self, kind: type[Any], name: str) -> dict[str, Any]:
        """The object, once it exists."""
        return await self.eventually(lambda: self.get(kind, name))

    async def gone(self, kind: type[Any], name: str) -> None:
        async def is_gone() -> bool:
            return await self.get(kind, name) is None

        await self.eventually(is_gone)

    async def names(self, kind: type[Any]) -> set[str]:
        return {each.metadata.name for each in await self.client.list(kind, "default")}

    async def run(self, name: str, ready: int, replicas: int | None = None) -> None:
        """Report the replicas of a Deployment, as its own controller would."""
        await self.there(api.Deployment, name)
        count = ready if replicas is None else replicas
        status = {"replicas": count, "readyReplicas": ready, "updatedReplicas": ready}
        await self.client.patch_status(api.Deployment, name, "default", status)

    async def edit(self, kind: type[Any], name: str, change: dict[str, Any]) -> None:
        """Change an object as a person would."""
        await self.client.patch(kind, name, "default", change, field_manager="person")

    async def conditions(self, name: str = "m") -> dict[str, api.Condition]:
        status = (await self.client.get(api.Model, name, "default")).status
        return {each.type: each for each in status.conditions} if status is not None else {}

    async def says(self, kind: str, status: str, *, name: str = "m", reason: str = "") -> api.Condition:
        """The condition, once it has this status, and this reason if one is given."""

        async def found() -> api.Condition | None:
            condition = (await self.conditions(name)).get(kind)
            is_it = condition is not None and condition.status == status
            return condition if is_it and reason in ("", condition.reason) else None

        return await self.eventually(found)

    async def settled(self) -> None:
        """Until the controller has had nothing to do for a while."""
        quiet_since, last = 0.0, -1
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LIMIT_S):
            while True:
                now = self.controller.statistics()
                queue = now.queue
                if queue.taken != last or queue.waiting or queue.delayed or queue.processing:
                    quiet_since, last = loop.time(), queue.taken
                elif loop.time() - quiet_since > 0.5:
                    return
                await asyncio.sleep(0.02)

    @staticmethod
    async def eventually(probe: Callable[[], Awaitable[Any]]) -> Any:
        """What the probe returns, once that is true."""
        async with asyncio.timeout(LIMIT_S):
            while not (found := await probe()):
                await asyncio.sleep(0.02)
        return found


@contextlib.asynccontextmanager
async def controlling(client: cluster.Client) -> AsyncIterator[ModelController]:
    """A controller that runs inside the block."""
    controller, ready = ModelController(client), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(controller.run(2, ready.set))
        await ready.wait()
        yield controller
        running.cancel()


@pytest.fixture
async def lab(client: cluster.Client) -> AsyncIterator[Lab]:
    async with controlling(client) as controller:
        yield Lab(client, controller)


@pytest.fixture
def another_controller(client: cluster.Client) -> Callable[[], Any]:
    """Makes a controller that runs inside a block."""
    return lambda: controlling(client)
