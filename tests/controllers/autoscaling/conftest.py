"""Autoscaling on an embedded API server, on which the tests make Pods and play the kubelet."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate import cluster

# The same behaviors are tested on a real control plane.
sys.path.insert(0, str(Path(__file__).parent / "behaviors"))

from world_of_scaling import World, world_of


@pytest.fixture
async def world(client: cluster.Client) -> AsyncIterator[World]:
    async def new_namespace() -> str:
        name = f"test-{uuid.uuid4().hex[:10]}"
        await client.create_manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    async with world_of(client, new_namespace, makes_pods=True) as world:
        yield world
