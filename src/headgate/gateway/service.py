"""The service of a worker: receives objects through informers, and requests through listening sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import cast

from headgate import cluster, routing, serving, telemetry
from headgate.dataplane import following, tracing
from headgate.dataplane.credentials.followed import FollowedCredentials
from headgate.dataplane.followed import FollowedObjects
from headgate.dataplane.records.recorder import PREFIX, Recorder
from headgate.gateway import accepting, gauges, limits
from headgate.gateway.gateway_api import FollowedEntries, Ports
from headgate.gateway.listener import ClientConnection
from headgate.gateway.redirecting import Insecure
from headgate.gateway.settings import GatewaySettings
from headgate.gateway.shell import Shell
from headgate.gateway.tls.served import Served
from headgate.quota.conditions import LimitConditions
from headgate.quota.gateways import Gateways
from headgate.quota.transport import Transport
from headgate.requests.data_plane import DataPlane
from headgate.routing import gateway_api
from headgate.telemetry.tracing import SERVER

log = logging.getLogger(__name__)

LOG_FLUSH_INTERVAL_S = 0.1


class Service:
    """One worker's data path, with the objects that it follows and the log that it writes.

    `phase`: the point in their rounds at which its weighted splits begin. `accounts`: shares limits that are
    not counted in Redis with other workers. `objects`: those of this process, instead of an API server's.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        phase: float | None = None,
        accounts: Transport | None = None,
        objects: cluster.LocalObjects | None = None,
    ) -> None:
        settings = limits.affordable(settings)
        self.objects = objects
        self.registry = telemetry.Registry()
        self._lines: telemetry.LineLog | None = None
        self._recorder = Recorder(self.registry, None)
        self._write_log(settings.logging.access_log)
        self._tracing = tracing.start(settings.tracing, "headgate-gateway", SERVER)
        if self._tracing is not None:
            self._recorder.tracer = self._tracing.tracer
        tracing.add_metrics(self.registry, self._tracing, PREFIX)
        self._loop = asyncio.get_running_loop()
        self.shell = Shell(settings, self._recorder, self._loop, phase=phase, accounts=accounts)
        self._servers: dict[int, asyncio.Server] = {}
        self._served = self.shell.clients.certificates = Served(settings.tls) if settings.tls.is_on else None
        self._redirects = Insecure(self._loop, settings.listen.port)
        self._redirecting: asyncio.Server | None = None
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
        async with contextlib.AsyncExitStack() as stack:
            client = None
            if self.objects is None:
                file = settings.kubernetes.kubeconfig
                client = _client(file)
                await stack.enter_async_context(client)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            if self._served is not None:
                await self._redirect()
                tasks.create_task(self._served.follow_files())
                source = self.objects if client is None else client
                assert source is not None
                tasks.create_task(self._served.follow_secrets(source))
                await self._served.are_secrets_known.wait()
            tasks.create_task(_follow_objects(self.shell, self.ports, client, self.objects, on_ready))
            tasks.create_task(self.ports.run())
            tasks.create_task(_flush_log(self._recorder))
            tasks.create_task(self.shell.services.credentials.run())
            tasks.create_task(self.shell.services.providers.run(client or self.objects))
            group = ["gateway", *sorted(settings.kubernetes.namespaces)]
            tasks.create_task(self.shell.peering.run(client, group))

    async def listen(self, listeners: Collection[int]) -> None:
        """Accept connections on these listening sockets, given by descriptor, and on no others.

        The descriptors stay open. Connections in the queue of a socket that is left stay there, for other
        processes that listen on it. uvloop loses none that it has accepted, while asyncio's own loop does.
        """
        tls = self._served.names.context if self._served is not None else None
        redirects = self._redirects.protocol if self.shell.settings.tls.redirect_port else None
        for descriptor in set(listeners) - self._servers.keys():
            self._servers[descriptor] = await self._loop.create_server(
                accepting.protocols(self.shell.clients, self._connection, tls, plain=redirects),
                sock=socket.socket(fileno=os.dup(descriptor)),
                backlog=serving.BACKLOG,
            )
        for descriptor in self._servers.keys() - set(listeners):
            self._servers.pop(descriptor).close()
        if not listeners:
            self.ports.close()
            if self._redirecting is not None:
                self._redirecting.close()

    async def _redirect(self) -> None:
        """Open the port whose requests are redirected to HTTPS, if there is one. Raises OSError."""
        settings = self.shell.settings
        if not settings.tls.redirect_port:
            return
        sock = serving.listening_socket(settings.listen.host, settings.tls.redirect_port, shared=True)
        self._redirecting = await self._loop.create_server(
            self._redirects.protocol, sock=sock, backlog=serving.BACKLOG
        )

    def _connection(self) -> asyncio.Protocol:
        return cast(asyncio.Protocol, ClientConnection(self.shell.services, self.shell.clients))

    def change(self, settings: GatewaySettings) -> None:
        """Apply new settings."""
        if settings.logging.access_log != self.shell.settings.logging.access_log:
            self._write_log(settings.logging.access_log)
        if self._tracing is not None:
            self._tracing.tracer.change(settings.tracing)
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
        self._redirects.close()
        await self.shell.close()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)
        if self._lines is not None:
            self._lines.close()


def _client(kubeconfig: str | None) -> cluster.Client:
    """Raises cluster.ConfigurationError, which says how to do without an API server unless one was named."""
    try:
        return cluster.Client.from_kubeconfig(Path(kubeconfig) if kubeconfig is not None else None)
    except cluster.ConfigurationError as error:
        if kubeconfig is not None:
            raise
        without = "name engines by --endpoint URL, or files of objects by --objects"
        raise cluster.ConfigurationError(
            f"{error}; to serve without an API server, {without}; otherwise, give --kubeconfig"
        ) from error


async def _follow_objects(
    shell: Shell,
    ports: Ports,
    client: cluster.Client | None,
    own: cluster.LocalObjects | None,
    on_ready: Callable[[], None],
) -> None:
    """Keep the gateway's snapshot and entry points up to date with the objects of the API server, or with
    those of this process."""
    changed = asyncio.Event()
    namespaces = shell.settings.kubernetes.namespaces
    source = client if own is None else own
    assert source is not None
    objects = FollowedObjects(source, namespaces, changed.set)
    entries = _followed_entries(shell.settings, source, changed.set)
    async with asyncio.TaskGroup() as tasks:
        shell.denied = objects.denied
        if namespace := shell.settings.auth.namespace:
            credentials = FollowedCredentials(source, namespace, shell.services.credentials)
            await credentials.start(tasks)
        if entries is not None:
            shell.denied = lambda: objects.denied() + entries.denied()
            objects.follow_pods(entries.put_pod)
            await asyncio.gather(objects.start(tasks), entries.start(tasks))
        else:
            await objects.start(tasks)
        if client is not None:
            sources = shell.services.limit_sources
            gateways = Gateways(client, socket.gethostname(), os.getpid(), namespaces)
            shared = LimitConditions(client, sources.trouble, gateways, sources.there_are)
            objects.follow_routes(shared.note)
            tasks.create_task(shared.run())
        await shell.services.credentials.settle()  # otherwise, the first valid tokens would get 503
        await following.follow(objects, changed, _Follower(shell, ports, entries), on_ready)


class _Follower:
    """The shell and its ports, as they use new snapshots."""

    def __init__(self, shell: Shell, ports: Ports, entries: FollowedEntries | None) -> None:
        self._shell = shell
        self._ports = ports
        self._entries = entries

    @property
    def plane(self) -> DataPlane:
        return self._shell.plane

    @property
    def recorder(self) -> Recorder:
        return self._shell.recorder

    def use(self, snapshot: routing.Snapshot, step: routing.Step | None = None) -> None:
        self._shell.use(snapshot, step)
        if self._entries is not None:
            self._ports.use(self._entries.translated(snapshot.pools))


def _followed_entries(
    settings: GatewaySettings, client: cluster.Source, changed: Callable[[], None]
) -> FollowedEntries | None:
    """None if the gateway serves no Gateways."""
    told = settings.gateway_api
    if not told.controller:
        return None
    pages = (settings.listen, settings.metrics, settings.admin)
    own = {gateway_api.Place(page.host, page.port) for page in pages}
    translation = gateway_api.Settings(told.controller, frozenset(own), told.addresses == "assigned")
    return FollowedEntries(client, settings.kubernetes.namespaces, translation, changed)


async def _flush_log(recorder: Recorder) -> None:
    while True:
        await asyncio.sleep(LOG_FLUSH_INTERVAL_S)
        recorder.flush()
