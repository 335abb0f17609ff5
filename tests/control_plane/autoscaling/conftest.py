"""Autoscaling on a real control plane, whose controllers make Pods; the tests play the kubelet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import cluster as headgate_cluster

# The same behaviors are tested on the embedded API server.
sys.path.insert(0, str(Path(__file__).parents[2] / "controllers" / "autoscaling" / "behaviors"))

from world_of_scaling import World, world_of


@pytest.fixture
async def world(cluster: Any, lws: None, new_namespace: Callable[[], str]) -> AsyncIterator[World]:
    async def new() -> str:
        return await asyncio.to_thread(new_namespace)

    async with (
        headgate_cluster.Client.from_kubeconfig(cluster.kubeconfig) as client,
        world_of(client, new, makes_pods=False) as world,
    ):
        yield world
