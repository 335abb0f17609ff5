"""Models on a real control plane: a process node runs their Pods, with simulated engines in place of real
ones, and a hub on loopback has the weights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback_hub import Hub, Repository, running_hub
from world_of_models import Site, World, running_site, world_of


@pytest.fixture(scope="module")
def site(
    cluster: Any,
    lws: None,
    tmp_path_factory: pytest.TempPathFactory,
    unused_tcp_port_factory: Callable[[], int],
) -> Iterator[Site]:
    """A node, a controller and a gateway for all tests of a file."""
    directory = tmp_path_factory.mktemp("models")
    node = ("--node-name", "engines", "--pod-cidr", "10.244.96.0/20", "--node-ip", "10.244.0.1")
    node += ("--state", str(directory / "state"))
    with running_site(directory, cluster.kubeconfig, unused_tcp_port_factory, node) as site:
        yield site
    cluster.kubectl("delete", "node", "engines", "--ignore-not-found")


@pytest.fixture
def filled_hub() -> Iterator[Hub]:
    """With the weights of two models, and an adapter."""
    weights = Repository({"config.json": b"{}", "model.safetensors": bytes(1 << 20)})
    adapter = Repository({"adapter_config.json": b"{}", "weights": bytes(1000)})
    with running_hub() as hub:
        hub.repositories |= {"org/model": weights, "org/other": weights, "org/adapter": adapter}
        yield hub


@pytest.fixture
async def world(site: Site) -> AsyncIterator[World]:
    """A namespace for one test, which leaves nothing."""
    async with world_of(site, claimed) as world:
        yield world


def claimed(name: str, namespace: str, directory: Path) -> list[dict[str, Any]]:
    """A volume of the directory, and a claim that is bound to it."""
    shared = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            **shared,
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": str(directory)},
            "claimRef": {"namespace": namespace, "name": name},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            **shared,
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": f"{namespace}-{name}",
        },
    }
    return [volume, claim]
