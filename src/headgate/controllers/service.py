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
    """Where the objects are, and how many of them are worked on at a time."""

    kubeconfig: Path | None = None
    """None: the in-cluster account, $KUBECONFIG, ~/.kube/config."""
    namespace: str | None = None
    """None: all namespaces."""
    workers: int = 4


async def run_controllers(
    config: ControllersConfig, stop: asyncio.Event, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Runs until `stop` is set; `on_ready` is called once all objects are known.

    Raises ConfigurationError. A server that is not there is waited for.
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
