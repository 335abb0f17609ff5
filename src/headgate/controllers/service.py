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
    namespaces: tuple[str, ...] = ()
    """Those whose objects are followed; all if there are none."""
    workers: int = 4
    lease: str = ""
    """NAMESPACE/NAME of the Lease by which one of several processes leads; empty if there is only this one.
    Without a namespace it is that of the connection."""
    lease_s: float = 15.0
    """How long the others wait before they take over."""


async def run_controllers(
    config: ControllersConfig, stop: asyncio.Event, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Run until `stop` is set; calls `on_ready` once all objects are loaded.

    With a Lease, it is ready when it could take over. Raises ConfigurationError. Waits for a server that is
    not reachable.
    """
    async with cluster.Client.from_kubeconfig(config.kubeconfig) as client:
        election = _election(client, config)
        leadership = election or cluster.Undisputed()
        statuses = StatusController(client, config.namespaces, leadership=leadership)
        unattended = UnattendedObjects(client, config.namespaces, leadership=leadership)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(statuses.run(config.workers, on_ready)),
                tasks.create_task(unattended.run()),
            ]
            runs = tasks.create_task(election.run()) if election is not None else None
            await stop.wait()
            for task in running:
                task.cancel()
            await asyncio.wait(running)
            if runs is not None:  # last: until then, nobody else may act
                runs.cancel()


def _election(client: cluster.Client, config: ControllersConfig) -> cluster.Election | None:
    if not config.lease:
        return None
    namespace, _, name = config.lease.rpartition("/")
    return cluster.Election(
        client, name, namespace or client.namespace, terms=cluster.Terms.of(config.lease_s)
    )
