"""The life cycle of the API server: from files and sockets to ready, and to an orderly shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from headgate import allocator, private_files, serving
from headgate.apiserver import connections, expiry, pki
from headgate.apiserver.app import application
from headgate.apiserver.parts import Config, Parts
from headgate.apiserver.space import NO_SPACE

log = logging.getLogger(__name__)

_DRAIN_S = 3


@dataclass(frozen=True)
class Running:
    """A server that is ready."""

    url: str
    kubeconfig: Path
    identity: pki.Identity = field(repr=False)
    parts: Parts = field(repr=False)
    door: connections.Door = field(repr=False)


_USE = serving.Use("the Kubernetes API", "--host", "--port")


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[Running]:
    """Run the server within this context; on exit, watches end and requests are completed."""
    parts = Parts(config)
    listener: socket.socket | None = None
    try:
        now = datetime.datetime.now(datetime.UTC)
        identity = parts.store.write_file(lambda: pki.ensure(config.state / "pki", config.host, now))
        listener = serving.listening_socket(config.host, config.port, use=_USE)
        listener.listen(serving.BACKLOG)
        serving.drop_stalled(listener, parts.limits)
        url = _url(config.host, listener.getsockname()[1])
        door = connections.Door(parts.limits, parts.shared.connections, parts.shared.rejected)
        settings = _uvicorn_config(application(parts, identity.token))
        server = serving.EmbeddedServer(settings)

        def protocol() -> connections.BoundedProtocol:
            return connections.BoundedProtocol(settings, server.server_state, {})

        kubeconfig = config.state / "kubeconfig"
        async with contextlib.aclosing(server), asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(parts.collector.run()),
                tasks.create_task(expiry.run(parts.objects)),
                tasks.create_task(allocator.keep_returning()),
            ]
            answering = tasks.create_task(server.serve([]))
            await server.accepting.wait()
            background.append(tasks.create_task(door.receive(listener, _tls(identity), protocol)))
            written = pki.kubeconfig(identity, url)
            if not kubeconfig.exists() or kubeconfig.read_bytes() != written:
                _write(kubeconfig, written, parts)
            try:
                yield Running(url, kubeconfig, identity, parts, door)
            finally:
                parts.hub.close()
                for task in background:
                    task.cancel()
                # Awaited here, so that requests are also completed if a cancellation ends the block.
                await asyncio.wait(background)
                listener.close()
                server.stop()
                await asyncio.wait([answering])
    finally:
        if listener is not None:
            listener.close()
        parts.large_writes.close()
        parts.objects.judge.close()
        parts.store.close()


async def serve(
    config: Config,
    *,
    stop: asyncio.Event | None = None,
    on_ready: Callable[[Running], None] = lambda _: None,
) -> None:
    """Run the server until `stop` is set, or until cancelled."""
    async with running(config) as server:
        on_ready(server)
        await (stop or asyncio.Event()).wait()


def _write(kubeconfig: Path, content: bytes, parts: Parts) -> None:
    """On a completely full disk, the server continues with the old kubeconfig, if there is one."""
    try:
        parts.store.write_file(lambda: private_files.write(kubeconfig, content))
    except OSError as error:
        if error.errno not in NO_SPACE or not kubeconfig.exists():
            raise
        log.error("%s cannot be written and has an earlier address: %s", kubeconfig, error.strerror)


def _url(host: str, port: int) -> str:
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _tls(identity: pki.Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert, identity.key)
    return context


def _uvicorn_config(app: ASGIApp) -> uvicorn.Config:
    return serving.configuration(
        app, proxy_headers=False, timeout_keep_alive=75, timeout_graceful_shutdown=_DRAIN_S
    )
