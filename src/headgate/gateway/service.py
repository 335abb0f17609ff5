"""The service of a worker: receives objects through informers, and requests through listening sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import cast

from headgate import cluster, serving, telemetry
from headgate.api import ObjectRef
from headgate.gateway import gauges, limits
from headgate.gateway.followed import FollowedObjects
from headgate.gateway.gateway_api import FollowedEntries, Ports
from headgate.gateway.listener import ClientConnection
from headgate.gateway.recorder import Recorder
from headgate.gateway.settings import GatewaySettings
from headgate.gateway.shell import Shell
from headgate.quota.conditions import LimitConditions
from headgate.quota.gateways import Gateways
from headgate.quota.transport import Transport
from headgate.routing import gateway_api

log = logging.getLogger(__name__)

LOG_FLUSH_INTERVAL_S = 0.1
TRANSLATION_SHARE = 0.1
"""Of one core: the most that following object changes may use, however many there are."""
LONGEST_PAUSE_S = 1.0
"""Between two translations, each of which may combine many changes."""


class Service:
    """One worker's data path, with the objects that it follows and the log that it writes.

    `phase`: the point in their rounds at which its weighted splits begin. `accounts`: shares limits that are
    not counted in Redis with other workers.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        phase: float | None = None,
        accounts: Transport | None = None,
    ) -> None:
        settings = limits.affordable(settings)
        self.registry = telemetry.Registry()
        self._lines: telemetry.LineLog | None = None
        self._recorder = Recorder(self.registry, None)
        self._write_log(settings.logging.access_log)
        self._loop = asyncio.get_running_loop()
        self.shell = Shell(settings, self._recorder, self._loop, phase=phase, accounts=accounts)
        self._servers: dict[int, asyncio.Server] = {}
        self.ports = Ports(self.shell.gateways, settings.listen.host)
        gauges.add_gauges(self.registry, self.shell)
        telemetry.add_process_metrics(self.registry)

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Follow the objects until cancelled; calls `on_ready` once requests can be routed.

        Raises cluster.ConfigurationError if no API server is configured.
        """
        settings = self.shell.settings
        self.shell.scraper.start()
        self.shell.kv_events.start()
        kubeconfig = (
            Path(settings.kubernetes.kubeconfig) if settings.kubernetes.kubeconfig is not None else None
        )
        async with (
            cluster.Client.from_kubeconfig(kubeconfig) as client,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(_follow_objects(self.shell, self.ports, client, on_ready))
            tasks.create_task(self.ports.run())
            tasks.create_task(_flush_log(self._recorder))

    async def listen(self, listeners: Collection[int]) -> None:
        """Accept connections on these listening sockets, given by descriptor, and on no others.

        The descriptors stay open. Connections in the queue of a socket that is left stay there, for other
        processes that listen on it. uvloop loses none that it has accepted, while asyncio's own loop does.
        """
        for descriptor in set(listeners) - self._servers.keys():
            self._servers[descriptor] = await self._loop.create_server(
                lambda: cast(asyncio.Protocol, ClientConnection(self.shell.services, self.shell.clients)),
                sock=socket.socket(fileno=os.dup(descriptor)),
                backlog=serving.BACKLOG,
            )
        for descriptor in self._servers.keys() - set(listeners):
            self._servers.pop(descriptor).close()
        if not listeners:
            self.ports.close()

    def change(self, settings: GatewaySettings) -> None:
        """Apply new settings."""
        if settings.logging.access_log != self.shell.settings.logging.access_log:
            self._write_log(settings.logging.access_log)
        self.shell.change(limits.affordable(settings))
        logging.getLogger().setLevel(settings.logging.level.upper())

    def _write_log(self, form: str) -> None:
        self._recorder.flush()
        if form != "off" and self._lines is None:
            self._lines = telemetry.LineLog(sys.stdout.fileno() if sys.stdout is not None else 1)
        self._recorder.write_to(self._lines if form != "off" else None, form)

    async def close(self) -> None:
        """Close everything."""
        await self.listen(())
        await self.shell.close()
        if self._lines is not None:
            self._lines.close()


async def _follow_objects(
    shell: Shell, ports: Ports, client: cluster.Client, on_ready: Callable[[], None]
) -> None:
    """Keep the gateway's snapshot and entry points up to date with the objects of the API server."""
    changed = asyncio.Event()
    namespaces = shell.settings.kubernetes.namespaces
    objects = FollowedObjects(client, namespaces, changed.set)
    entries = _followed_entries(shell.settings, client, changed.set)
    async with asyncio.TaskGroup() as tasks:
        shell.denied = objects.denied
        if entries is not None:
            shell.denied = lambda: objects.denied() + entries.denied()
            objects.follow_pods(entries.put_pod)
            await asyncio.gather(objects.start(tasks), entries.start(tasks))
        else:
            await objects.start(tasks)
        sources = shell.services.limit_sources
        gateways = Gateways(client, socket.gethostname(), os.getpid(), namespaces)
        shared = LimitConditions(client, sources.trouble, gateways, sources.there_are)
        objects.follow_routes(shared.note)
        tasks.create_task(shared.run())
        failed: dict[ObjectRef, Exception] = {}
        while True:
            # Changes that arrive together cause one translation: the event is cleared before it begins.
            changed.clear()
            began_s = time.thread_time()
            try:
                snapshot = objects.translated()
                shell.use(snapshot, objects.translator.step)
                if entries is not None:
                    ports.use(entries.translated(snapshot.pools))
            except Exception:
                if not shell.plane.is_ready:
                    raise
                # A bug triggered by some object: other objects, and requests, must not suffer from it.
                shell.recorder.translations_failed.labels().value += 1
                log.exception("the objects cannot be applied: requests continue with the previous ones")
            failed = _note_failures(shell, failed, objects.translator.failed)
            if not shell.plane.is_ready:
                shell.plane.is_ready = True
                on_ready()
            # However fast objects change, leave the rest of the core to requests.
            took_s = time.thread_time() - began_s
            await asyncio.sleep(min(took_s * (1 / TRANSLATION_SHARE - 1), LONGEST_PAUSE_S))
            await changed.wait()


def _followed_entries(
    settings: GatewaySettings, client: cluster.Client, changed: Callable[[], None]
) -> FollowedEntries | None:
    """None if the gateway serves no Gateways."""
    told = settings.gateway_api
    if not told.controller:
        return None
    own = {settings.listen.port, settings.metrics.port, settings.admin.port}
    translation = gateway_api.Settings(told.controller, frozenset(own), told.addresses == "assigned")
    return FollowedEntries(client, settings.kubernetes.namespaces, translation, changed)


def _note_failures(
    shell: Shell, before: dict[ObjectRef, Exception], failed: dict[ObjectRef, Exception]
) -> dict[ObjectRef, Exception]:
    """Log the objects that could not be translated and are not in `before`."""
    for ref in failed.keys() - before.keys():
        shell.recorder.translations_failed.labels().value += 1
        log.error("%s cannot be applied: its previous version stays in effect", ref, exc_info=failed[ref])
    return dict(failed)


async def _flush_log(recorder: Recorder) -> None:
    while True:
        await asyncio.sleep(LOG_FLUSH_INTERVAL_S)
        recorder.flush()
