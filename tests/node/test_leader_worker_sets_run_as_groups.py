"""LeaderWorkerSets on the embedded API server, with real Pods. The same behaviors are tested in a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from leader_worker_sets import BEHAVIORS, World

from headgate import api


@pytest.fixture
async def world(machine_of: Any) -> AsyncIterator[World]:
    """A server with Headgate's definitions, and a node."""
    definitions = [*api.borrowed_definitions()]
    async with machine_of(definitions) as machine, machine.node():
        yield World(machine.client, "default")


@pytest.mark.parametrize("behavior", BEHAVIORS, ids=lambda each: each.__name__)
async def test_it(world: World, behavior: Callable[[World], Awaitable[None]]) -> None:
    """Each behavior, as its docstring says."""
    await behavior(world)


async def test_workers_reach_their_leader(world: World) -> None:
    """LWS_LEADER_ADDRESS is the leader's own address, for itself and for its workers."""
    await world.create(replicas=1)
    pods = await world.until_ready("ring-0", "ring-0-1")
    address = pods["ring-0"].status.pod_ip
    for name in pods:
        path = world.client.path_of(api.Pod.resource, name, "default", "log")
        log = (await world.client.ask("GET", path)).body.decode()
        assert log == f"leader at {address}\n"
