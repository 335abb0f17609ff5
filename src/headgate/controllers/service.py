"""The controllers of one process, from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headgate import cluster, serving
from headgate.controllers import pages
from headgate.controllers.autoscaling import AutoscalingController, AutoscalingSettings
from headgate.controllers.gateway_api import GatewayApiController, GatewayApiSettings
from headgate.controllers.model import ModelController, ModelSettings
from headgate.controllers.planning import PlanningController, PlanningSettings
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
    headgate_image: str = "headgate"
    """Image of the downloads and sidecars of Models."""
    host_path_roots: tuple[str, ...] = ()
    """Directories of nodes that caches of Models may be in; none for any."""
    autoscaling: AutoscalingSettings = AutoscalingSettings()
    planning: PlanningSettings = PlanningSettings()
    gateway_api: GatewayApiSettings = GatewayApiSettings()
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """Where to serve health and metrics; None to serve none."""
    page_token_file: Path | None = None
    """With the token that metrics need; None for everybody."""


async def run_controllers(
    config: ControllersConfig, stop: asyncio.Event, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Run until `stop` is set; calls `on_ready` once all objects are loaded.

    With a Lease, it is ready when it could take over. Raises ConfigurationError, and OSError if it cannot
    listen. Waits for a server that is not reachable.
    """
    with _listener(config) as listener:
        await _run(config, listener, stop, on_ready)


async def _run(
    config: ControllersConfig,
    listener: serving.Listener | None,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
) -> None:
    async with cluster.Client.from_kubeconfig(config.kubeconfig) as client:
        election = _election(client, config)
        leadership = election or cluster.Undisputed()
        gateway_api = GatewayApiController(
            client, config.namespaces, config.gateway_api, leadership=leadership
        )
        statuses = StatusController(
            client, config.namespaces, leadership=leadership, has_gateways=gateway_api.has_classes
        )
        gateway_api.on_classes(statuses.review_pools)
        settings = ModelSettings(headgate_image=config.headgate_image, host_path_roots=config.host_path_roots)
        models = ModelController(client, config.namespaces, settings, leadership=leadership)
        scaling = AutoscalingController(client, config.namespaces, config.autoscaling, leadership=leadership)
        planning = PlanningController(
            client, scaling, config.namespaces, config.planning, leadership=leadership
        )
        unattended = UnattendedObjects(client, config.namespaces, leadership=leadership)
        waiting = {"gateway-api", "statuses", "models", "scaling", "planning"}

        def is_ready(which: str) -> None:
            waiting.discard(which)
            if not waiting:
                on_ready()

        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(gateway_api.run(lambda: is_ready("gateway-api"))),
                tasks.create_task(statuses.run(config.workers, lambda: is_ready("statuses"))),
                tasks.create_task(models.run(config.workers, lambda: is_ready("models"))),
                tasks.create_task(scaling.run(lambda: is_ready("scaling"))),
                tasks.create_task(planning.run(lambda: is_ready("planning"))),
                tasks.create_task(unattended.run()),
            ]
            if listener is not None:
                shown = pages.pages(statuses, models, scaling, planning, gateway_api, leadership)
                page = serving.by_token_file(shown, config.page_token_file)
                running.append(tasks.create_task(serving.serve_page(page, listener)))
            runs = tasks.create_task(election.run()) if election is not None else None
            await stop.wait()
            for task in running:
                task.cancel()
            await asyncio.wait(running)
            if runs is not None:  # last: until then, nobody else may act
                runs.cancel()


@contextlib.contextmanager
def _listener(config: ControllersConfig) -> Iterator[serving.Listener | None]:
    if config.metrics_port is None:
        yield None
        return
    use = serving.Use("health and metrics", "--metrics-host", "--metrics-port")
    with serving.listening_socket(config.metrics_host, config.metrics_port, use=use) as listener:
        yield listener


def _election(client: cluster.Client, config: ControllersConfig) -> cluster.Election | None:
    if not config.lease:
        return None
    key = client.key_of(config.lease)
    return cluster.Election(client, key.name, key.namespace, terms=cluster.Terms.of(config.lease_s))
