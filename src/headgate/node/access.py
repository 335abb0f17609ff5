"""How the API server reaches the Pods of a node: by the node's own API, or only their logs.

The embedded API server has neither a client certificate nor reviews of access. It gets logs on loopback,
under a secret path, and nothing else.
"""

import asyncio
import contextlib
import dataclasses
import errno
import ipaddress
import socket
from collections.abc import AsyncIterator
from typing import Protocol

from headgate import cluster, serving
from headgate.node import kubelet, logs
from headgate.node.kubelet.answers import Pods
from headgate.node.log_files import LogDirectory
from headgate.node.registration import Identity, NodeConfig

KUBELET_PORT = 10250
_LAST_WORDS_S = 2.0
"""How long clients get the last output and the exit codes of containers that have ended."""


class Access(Protocol):
    """A server that has its port from construction on."""

    def published(self, identity: Identity) -> Identity:
        """The identity, with where the server is reached."""

    async def run(self, pods: Pods) -> None:
        """Serve until `stop`."""

    def stop(self) -> None:
        """End all connections soon."""


@contextlib.asynccontextmanager
async def of_logs(directory: LogDirectory) -> AsyncIterator[Access]:
    """The embedded API server's access to logs."""
    with contextlib.closing(logs.LogServer(directory)) as server:
        yield _Logs(server)


@contextlib.asynccontextmanager
async def of_cluster(
    given: NodeConfig,
    identity: Identity,
    client: cluster.Client,
    directory: LogDirectory,
) -> AsyncIterator[Access]:
    """A cluster's access to the node's own API. Raises ConfigurationError."""
    names = (identity.name, identity.host_ip)
    certificates = kubelet.Certificates(given.tls, client, given.state, names)
    await certificates.refresh()
    with contextlib.closing(_listener(identity.host_ip, given.kubelet_port)) as listener:
        reviews = kubelet.Reviews(client, identity.name)
        yield _Api(listener, certificates, reviews, directory)


class _Logs:
    def __init__(self, server: logs.LogServer) -> None:
        self._server = server

    def published(self, identity: Identity) -> Identity:
        return dataclasses.replace(identity, log_url=self._server.url)

    async def run(self, pods: Pods) -> None:
        await self._server.run()

    def stop(self) -> None:
        self._server.stop()


class _Api:
    def __init__(
        self,
        listener: serving.Listener,
        certificates: kubelet.Certificates,
        reviews: kubelet.Reviews,
        directory: LogDirectory,
    ) -> None:
        self._listener = listener
        self._certificates = certificates
        self._reviews = reviews
        self._directory = directory
        self._stopping = asyncio.Event()

    def published(self, identity: Identity) -> Identity:
        return dataclasses.replace(identity, kubelet_port=int(self._listener.getsockname()[1]))

    async def run(self, pods: Pods) -> None:
        answers = kubelet.Answers(pods, self._directory)
        server = kubelet.Server(
            self._listener, lambda: self._certificates.context, self._reviews, answers.answer
        )
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(each) for each in (server.run(), self._certificates.run())]
            await self._stopping.wait()
            await server.until_idle(_LAST_WORDS_S)
            for task in working:
                task.cancel()

    def stop(self) -> None:
        self._stopping.set()


def _listener(address: str, port: int | None) -> serving.Listener:
    """At the address of the node, or at all if that is another machine's, such as a gateway's."""
    host = address if _is_own(address) else ""
    use = serving.Use("the node's API", "--node-ip", "--kubelet-port")
    try:
        return serving.listening_socket(host or "0.0.0.0", KUBELET_PORT if port is None else port, use=use)  # noqa: S104
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return serving.listening_socket(host or "0.0.0.0", 0, use=use)  # noqa: S104
        raise cluster.ConfigurationError(error.strerror) from error


def _is_own(address: str) -> bool:
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except (ValueError, OSError):
        return False
    return True
