"""The controllers of one process, from start to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from headgate import cluster
from headgate.controllers.statuses import StatusController
from headgate.controllers.unattended import UnattendedObjects


class ControllersConfig(msgspec.Struct, frozen=True, kw_only=True):
    """API server, namespace and concurrency."""

    kubeconfig: Path | None = None
    """None for the in-cluster account, $KUBECONFIG or ~/.kube/config."""
    namespace: str | None = None
    """None for all namespaces."""
    workers: int = 4


async def run_controllers(
    config: ControllersConfig, stop: asyncio.Event, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Run until `stop` is set; calls `on_ready` once all objects are loaded.

    Raises ConfigurationError. Waits for a server that is not reachable.
    """
    async with cluster.Client.from_kubeconfig(config.kubeconfig) as client:
        statuses = StatusController(client, config.namespace)
        unattended = UnattendedObjects(client, config.namespace)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(statuses.run(config.workers, on_ready))
            beside = tasks.create_task(unattended.run())
            await stop.wait()
            running.cancel()
            beside.cancel()
