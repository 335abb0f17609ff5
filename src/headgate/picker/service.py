"""The service of a picker process: receives objects through informers, and streams through its sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from headgate import api, cluster, extproc, loop_turns, peers, routing, rpc, serving, telemetry
from headgate.dataplane import following, gauges, tracing
from headgate.dataplane.followed import FollowedObjects
from headgate.dataplane.records.recorder import Recorder
from headgate.picker import pages, reference_gauges
from headgate.picker.certificates import Certificates
from headgate.picker.pools import selected
from headgate.picker.reference_metrics import ReferenceMetrics
from headgate.picker.settings import PickerSettings
from headgate.picker.shell import Shell
from headgate.telemetry.tracing import INTERNAL

PREFIX = "headgate_picker"
"""Of the names of metrics."""
LOG_FLUSH_INTERVAL_S = 0.1
HEALTH_NAMES = ("", "liveness", "readiness", extproc.SERVICE)
"""Services that the health service lists; other names get the same answer."""


class Servers:
    """The gRPC servers of a picker."""

    def __init__(self, shell: Shell, tls: Certificates | None) -> None:
        listening = shell.settings.listening
        turns = loop_turns.Turns(shell.loop)
        health = rpc.health.services(
            dict.fromkeys(HEALTH_NAMES, lambda: shell.is_ready), lambda: shell.is_ready
        )
        limits = rpc.Limits(max_message_bytes=listening.max_message_bytes)
        services = {extproc.PATH: shell.open, **health}
        context = tls.context if tls is not None else None
        self._shell, self._listening = shell, listening
        self.processing = rpc.Server(services, turns, limits, context)
        self.health = rpc.Server(health, turns, rpc.Limits())
        self.port = self.health_port = 0

    @property
    def is_ready(self) -> bool:
        """Whether requests may come: see Shell.is_ready."""
        return self._shell.is_ready

    async def listen(self) -> None:
        """Raises OSError, which names the address."""
        listening = self._listening
        self.port = await listen(self.processing, listening.host, listening.grpc_port, "--grpc-port")
        self.health_port = await listen(
            self.health, listening.host, listening.health_port, "--grpc-health-port"
        )

    async def drain(self, grace_s: float) -> None:
        """Let streams end; health responds until they have."""
        await self.processing.drain(grace_s)
        await self.health.close()

    async def close(self) -> None:
        await self.processing.close()
        await self.health.close()


async def listen(server: rpc.Server, host: str, port: int, flag: str) -> int:
    """Returns the port. Raises OSError, which names the address and the flag that changes it."""
    try:
        return await server.listen(host, port)
    except OSError as error:
        # The text of asyncio repeats the address; names that cannot be resolved have negative numbers.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        told = f"cannot listen on {host}:{port}: {why}; choose another with {flag}"
        raise OSError(error.errno, told) from error


async def run_picker(
    settings: PickerSettings, stop: asyncio.Event, on_ready: Callable[[Servers], None]
) -> None:
    """Serve until `stop` is set, then let streams end. Calls `on_ready` once the objects are loaded.

    Raises cluster.ConfigurationError if no API server is configured, CertificateError,
    peers.ConfigurationError, and OSError.
    """
    loop = asyncio.get_running_loop()
    registry = telemetry.Registry()
    lines = None
    if settings.logging.access_log != "off":
        lines = telemetry.LineLog(sys.stdout.fileno() if sys.stdout is not None else 1)
    recorder = Recorder(registry, lines, settings.logging.access_log, PREFIX)
    traces = None
    if settings.tracing is not None:
        traces = tracing.start(settings.tracing, "headgate-picker", INTERNAL)
    recorder.tracer = traces.tracer if traces is not None else None
    tracing.add_metrics(registry, traces, PREFIX)
    tls = Certificates(settings.listening) if settings.listening.is_secure else None
    listening = settings.listening
    use = serving.Use("metrics", "--host", "--metrics-port")
    with serving.listening_socket(listening.host, listening.metrics_port, use=use) as page_socket:
        shell = Shell(settings, recorder, loop, reference=ReferenceMetrics(registry))
        gauges.add_gauges(registry, shell, PREFIX)
        peers.add_metrics(registry, shell.engines.peering.peers, shell.now, PREFIX)
        reference_gauges.add_gauges(registry, shell)
        telemetry.add_process_metrics(registry)
        servers = Servers(shell, tls)
        page = serving.by_token_file(pages.pages(shell, registry), listening.page_token_file)
        try:
            await servers.listen()
            await shell.engines.peering.start()
            shell.engines.start()
            async with _client(settings) as client, asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(serving.serve_page(page, page_socket)),
                    tasks.create_task(_follow_objects(shell, client, lambda: on_ready(servers))),
                    tasks.create_task(_flush_log(recorder)),
                    tasks.create_task(shell.engines.peering.run(client, _group(settings))),
                ]
                if tls is not None:
                    running.append(tasks.create_task(tls.follow()))
                await stop.wait()
                shell.drain()
                await servers.drain(settings.drain_s)
                for task in running:
                    task.cancel()
        finally:
            await servers.close()
            await shell.close()
            recorder.flush()
            if lines is not None:
                lines.close()
            if traces is not None:
                await asyncio.to_thread(traces.close)


def _group(settings: PickerSettings) -> list[str]:
    """Pickers of the same pools share what they know."""
    names = settings.pools
    labels = [f"{key}={value}" for key, value in sorted(names.selector.items())]
    return ["picker", names.group, names.namespace, *sorted(names.names), *labels]


def _client(settings: PickerSettings) -> contextlib.AbstractAsyncContextManager[cluster.Client]:
    kubeconfig = settings.kubernetes.kubeconfig
    return cluster.Client.from_kubeconfig(Path(kubeconfig) if kubeconfig is not None else None)


async def _follow_objects(shell: Shell, client: cluster.Client, on_ready: Callable[[], None]) -> None:
    """Keep the snapshot up to date with the objects of the picker's namespace."""
    names = shell.settings.pools
    changed = asyncio.Event()
    objects = FollowedObjects(client, (names.namespace,), changed.set)
    async with asyncio.TaskGroup() as tasks:
        shell.denied = objects.denied
        await objects.start(tasks)
        if names.selector:
            pool = selected(names)
            key = api.ObjectRef(routing.INFERENCE_POOL, *pool.metadata.key)
            objects.translator.put(key, pool)
        await following.follow(objects, changed, shell, on_ready)


async def _flush_log(recorder: Recorder) -> None:
    while True:
        await asyncio.sleep(LOG_FLUSH_INTERVAL_S)
        recorder.flush()
