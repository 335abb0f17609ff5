"""A gateway process: objects in through informers, requests in through the listener, until told to stop."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headgate import api, cluster, routing, serving, telemetry
from headgate.gateway import gauges, limits, pages
from headgate.gateway.listener import ClientConnection
from headgate.gateway.proxy import Proxy
from headgate.gateway.recorder import Recorder
from headgate.gateway.settings import GatewaySettings

log = logging.getLogger(__name__)

LOG_FLUSH_INTERVAL_S = 0.1
BACKLOG = 4096


async def run_gateway(
    settings: GatewaySettings, stop: asyncio.Event, on_ready: Callable[[Proxy], None] | None = None
) -> None:
    """Serves until `stop` is set, then drains.

    `on_ready` is called once requests are routed. Raises OSError if an address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    settings = limits.affordable(settings)
    registry = telemetry.Registry()
    access_log = None if settings.access_log == "off" else telemetry.LineLog(sys.stdout.fileno())
    recorder = Recorder(registry, access_log, settings.access_log)
    proxy = Proxy(settings, recorder, loop)
    gauges.add_gauges(registry, proxy)
    telemetry.add_process_metrics(registry)
    kubeconfig = Path(settings.kubeconfig) if settings.kubeconfig is not None else None
    listener = serving.listening_socket(settings.host, settings.port, shared=True)
    try:
        async with (
            cluster.Client.from_kubeconfig(kubeconfig) as client,
            asyncio.TaskGroup() as tasks,
        ):
            background = [
                tasks.create_task(_follow_objects(proxy, client, settings.namespace, on_ready)),
                tasks.create_task(_flush_log(recorder)),
                tasks.create_task(
                    serving.serve_page(
                        pages.metrics_page(registry), settings.metrics_host, settings.metrics_port
                    )
                ),
                tasks.create_task(
                    serving.serve_page(pages.admin_page(proxy), settings.admin_host, settings.admin_port)
                ),
            ]
            server = await loop.create_server(
                functools.partial(ClientConnection, proxy), sock=listener, backlog=BACKLOG
            )
            try:
                await stop.wait()
            finally:
                server.close()
            left = await proxy.drain(settings.drain_s)
            if left:
                log.warning("%d connections did not end within %g s", left, settings.drain_s)
            for task in background:
                task.cancel()
    finally:
        await proxy.close()
        if access_log is not None:
            access_log.close()


async def _follow_objects(
    proxy: Proxy,
    client: cluster.Client,
    namespace: str | None,
    on_ready: Callable[[Proxy], None] | None,
) -> None:
    """Keeps the proxy's snapshot equal to the objects of the API server."""
    routes = cluster.Informer(client, api.ModelRoute, namespace)
    servers = cluster.Informer(client, api.ModelServer, namespace)
    pods = cluster.Informer(client, api.Pod, namespace)
    informers = (routes, servers, pods)
    changed = asyncio.Event()

    def note(change: cluster.Change[Any]) -> None:
        if not isinstance(change.object, api.Pod) or _facts(change.old) != _facts(change.new):
            changed.set()

    async with asyncio.TaskGroup() as tasks:
        for informer in informers:
            informer.subscribe(note)
            tasks.create_task(informer.run())
        for informer in informers:
            await informer.wait_synced()
        while True:
            # Changes that came together make one translation: the event is cleared before it is made.
            changed.clear()
            proxy.use(routing.translate(routes.items(), servers.items(), pods.items()))
            if not proxy.is_ready:
                proxy.is_ready = True
                if on_ready is not None:
                    on_ready(proxy)
            await changed.wait()


def _facts(pod: api.Pod | None) -> object:
    """What routing reads of a Pod: the rest of its status changes often, and must not cost a translation."""
    if pod is None or not pod.ready:
        return None
    return pod.status.pod_ip, pod.metadata.labels, pod.metadata.annotations, pod.spec.containers


async def _flush_log(recorder: Recorder) -> None:
    while True:
        await asyncio.sleep(LOG_FLUSH_INTERVAL_S)
        recorder.flush()
