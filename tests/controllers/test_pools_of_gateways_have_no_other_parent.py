"""With a GatewayClass of Headgate's, a pool that only routes of the Gateway API can lead to has only Gateways
as parents."""

import asyncio
import contextlib

import msgspec

from headgate.api import gie_v1
from headgate.controllers import StatusController

LLM = {"app": "llm"}


async def _parents(client, name):
    status = (await client.get(gie_v1.InferencePool, name, "default")).status
    return [each.parent_ref.name for each in status.parents] if status is not None else []


async def test_the_own_entry_goes_when_there_are_gateways_and_comes_back_without_them(client, kit):
    """A pool with models of its own keeps the entry: requests reach it without a Gateway, too. Entries of
    others are kept."""
    gateways = []
    controller, ready = StatusController(client, has_gateways=lambda: bool(gateways)), asyncio.Event()
    theirs = gie_v1.ParentStatus(
        parent_ref=gie_v1.ParentReference(name="theirs"), controller_name="x.example/y"
    )

    async def until(pool, *names):
        async def probe():
            return await _parents(client, pool) == [*names]

        await kit.eventually(probe)

    await client.create(kit.inference_pool("plain", LLM))
    await client.create(kit.inference_pool("served", LLM, models="m"))
    stated = msgspec.to_builtins(gie_v1.InferencePoolStatus(parents=[theirs]))
    await client.patch_status(gie_v1.InferencePool, "plain", "default", stated)
    task = asyncio.create_task(controller.run(2, ready.set))
    await ready.wait()
    await until("plain", "theirs", "headgate")
    await until("served", "headgate")
    gateways.append("one")
    controller.review_pools()
    await until("plain", "theirs")
    gateways.clear()
    controller.review_pools()
    await until("plain", "theirs", "headgate")
    assert await _parents(client, "served") == ["headgate"]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
