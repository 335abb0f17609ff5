"""LeaderWorkerSets by LWS's own controller, whose Pods are scheduled to `headgate node`.

The behaviors are those that the embedded API server and the node's controllers are tested for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from leader_worker_sets import BEHAVIORS, World

from headgate import cluster as kubernetes


@pytest.fixture
async def world(cluster: Any, lws: None, namespace: str, process_node: Any) -> AsyncIterator[World]:
    """A node for the Pods of one test."""
    process_node("groups", "10.244.96.0/24")
    async with kubernetes.Client.from_kubeconfig(cluster.kubeconfig) as client:
        yield World(client, namespace)


@pytest.mark.parametrize("behavior", BEHAVIORS, ids=lambda each: each.__name__)
async def test_it(world: World, behavior: Callable[[World], Awaitable[None]]) -> None:
    """Each behavior, as its docstring says."""
    await behavior(world)
