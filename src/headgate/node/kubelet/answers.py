"""The paths of a node's API, as API servers and kubectl use them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import NoReturn, Protocol

import msgspec

from headgate import api
from headgate.node import log_files, log_reading, logs, processes
from headgate.node.kubelet import exec as execution
from headgate.node.kubelet import port_forward, requests
from headgate.node.kubelet.requests import RefusedError, Request, Response
from headgate.node.kubelet.server import Upgrade
from headgate.node.kubelet.streams import Connection

UPGRADE = "SPDY/3.1"
_TRUE = ("1", "true")
_NO_ATTACH = (
    "this node runs Pods as processes, to which kubectl cannot attach: use kubectl logs -f or kubectl exec"
)


class Worker(Protocol):
    """Runs one Pod."""

    def container(self, name: str) -> processes.RunningContainer | None:
        """What runs, or has run, as a container."""

    async def start_command(
        self, container: str, command: Sequence[str], stdio: processes.Stdio
    ) -> processes.Process:
        """Start a command beside a container that has started. Raises StartError."""

    def address(self, port: int) -> tuple[str, int]:
        """Where a port of the Pod is reached."""


class Pods(Protocol):
    """The Pods of the node."""

    def worker(self, namespace: str, name: str) -> Worker | None: ...

    def known_pods(self) -> list[api.Pod]: ...


class Answers:
    """Answers admitted requests."""

    def __init__(self, pods: Pods, directory: log_files.LogDirectory) -> None:
        self._pods = pods
        self._logs = directory
        self._turns = log_reading.Turns()

    async def answer(self, request: Request) -> Response | Upgrade:
        """Raises RefusedError."""
        if any("/" in part or part in (".", "..") for part in request.path):
            _refuse(HTTPStatus.BAD_REQUEST, "a part of the path is not a name")
        match request.path:
            case ["healthz"]:
                _allow(request, "GET", "HEAD")
                return Response(b"ok")
            case ["pods"]:
                _allow(request, "GET", "HEAD")
                return self._list()
            case ["containerLogs", namespace, pod, container]:
                _allow(request, "GET", "HEAD")
                return self._log(namespace, pod, container, request)
            case ["exec", namespace, pod, container] | ["exec", namespace, pod, _, container]:
                return self._exec(namespace, pod, container, request)
            case ["portForward", namespace, pod] | ["portForward", namespace, pod, _]:
                return self._forward(namespace, pod, request)
            case ["attach", *_]:
                return self._refuse_command(_wanted(request), request, _NO_ATTACH)
        path = "/".join(request.path)[:200]
        raise RefusedError(HTTPStatus.NOT_FOUND, f"the API of this node has no path /{path}")

    def _list(self) -> Response:
        content = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self._pods.known_pods()}
        return Response(msgspec.json.encode(content), content_type="application/json")

    def _log(self, namespace: str, pod: str, container: str, request: Request) -> Response:
        try:
            content = logs.read(self._logs, self._turns, namespace, pod, container, request.parameters)
        except (ValueError, logs.NoLogError) as error:
            # kubectl shows the message of this status, but not that of 404.
            _refuse(HTTPStatus.BAD_REQUEST, str(error))
        return Response(content)

    def _exec(self, namespace: str, pod: str, container: str, request: Request) -> Upgrade:
        wanted = _wanted(request)
        if not wanted.command or not wanted.command[0]:
            _refuse(HTTPStatus.BAD_REQUEST, "the parameter command is missing")
        if any("\0" in word for word in wanted.command):
            _refuse(HTTPStatus.BAD_REQUEST, "the parameter command has a zero byte")
        worker = self._pods.worker(namespace, pod)
        running = worker and worker.container(container)
        if worker is None or not isinstance(running, processes.Process) or running.ended.is_set():
            message = f"container {container!r} of pod {namespace}/{pod} has no running process on this node"
            return self._refuse_command(wanted, request, message)
        start = functools.partial(worker.start_command, container)
        return _upgrade(
            request,
            execution.PROTOCOL,
            lambda connection: execution.serve(connection, wanted, running, start),
        )

    def _refuse_command(self, wanted: execution.Wanted, request: Request, message: str) -> Upgrade:
        return _upgrade(
            request,
            execution.PROTOCOL,
            lambda connection: execution.refuse(connection, wanted, message),
        )

    def _forward(self, namespace: str, pod: str, request: Request) -> Upgrade:
        worker = self._worker(namespace, pod)

        async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection(*worker.address(port))

        return _upgrade(
            request, port_forward.PROTOCOL, lambda connection: port_forward.serve(connection, dial)
        )

    def _worker(self, namespace: str, pod: str) -> Worker:
        worker = self._pods.worker(namespace, pod)
        if worker is None:
            _refuse(HTTPStatus.NOT_FOUND, f"pod {namespace}/{pod} does not run on this node")
        return worker


def _wanted(request: Request) -> execution.Wanted:
    query = request.parameters
    names = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
    flags = {name: any(query.get(each) in _TRUE for each in (name, short)) for name, short in names}
    command = [value for name, value in request.query if name == "command"]
    return execution.Wanted(command, **flags)


def _upgrade(request: Request, protocol: str, serve: Callable[[Connection], Awaitable[None]]) -> Upgrade:
    _allow(request, "GET", "POST")
    if request.upgrade != UPGRADE.lower():
        _refuse(HTTPStatus.BAD_REQUEST, f"only the upgrade to {UPGRADE} is supported")
    offered = _words(request.headers.get("x-stream-protocol-version", ""))
    if protocol not in offered:
        _refuse(HTTPStatus.BAD_REQUEST, f"only X-Stream-Protocol-Version: {protocol} is supported")

    async def upgraded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.switch(writer, UPGRADE, protocol)
        connection = Connection(reader, writer)
        async with asyncio.TaskGroup() as tasks:
            pinging = tasks.create_task(connection.ping())
            await serve(connection)
            pinging.cancel()
        with contextlib.suppress(ConnectionError):
            await writer.drain()

    return upgraded


def _words(text: str) -> Sequence[str]:
    return [word.strip() for word in text.split(",")]


def _allow(request: Request, *methods: str) -> None:
    if request.method not in methods:
        _refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not supported for /{request.path[0]}")


def _refuse(status: HTTPStatus, message: str) -> NoReturn:
    raise RefusedError(status, message)
