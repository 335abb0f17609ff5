"""Probes one run of a container from start to end, and reports each change of the result.

A probe is one HTTP request, TCP connection or command, small, and bounded in time and size.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from headgate import api
from headgate.api.core import TCPSocketAction
from headgate.node import grpc_health, pod_spec
from headgate.node.probe_schedule import EAGER_EXEC_S, EAGER_S, ProbeKind, ProbeSchedule

_MAX_STATUS_LINE = 1024


@dataclass(frozen=True)
class Answer:
    """The result of one probe; `detail` has the error or the response status."""

    healthy: bool
    detail: str


@dataclass(frozen=True)
class ProbeTarget:
    """Where a container listens, as its probes name it."""

    host: str
    ports: dict[str, int]
    """Named ports of the container."""
    port: int | None = None
    """Replaces all ports, if Pods share an address or the server is external."""

    def resolve(self, port: int | str) -> int | None:
        """Resolve a port given by number or name; None if there is no such port."""
        if self.port is not None:
            return self.port
        number = int(port) if str(port).isdecimal() else self.ports.get(str(port))
        return number if number is not None and 0 < number < 65536 else None


Verdict = Callable[[ProbeKind, Answer], None]
Execute = Callable[[Sequence[str], float], Awaitable[Answer]]
"""Runs a command in the container, for at most so many seconds."""


async def probe(
    container: pod_spec.Container,
    target: ProbeTarget,
    execute: Execute,
    tell: Verdict,
    *,
    liveness: bool = True,
) -> None:
    """Run all probes: the startup probe first, then the others concurrently. Runs until cancelled."""
    if container.startup_probe is not None:
        await _follow(ProbeKind.STARTUP, container.startup_probe, target, execute, tell)
    async with asyncio.TaskGroup() as tasks:
        if container.readiness_probe is not None:
            tasks.create_task(_follow(ProbeKind.READINESS, container.readiness_probe, target, execute, tell))
        if container.liveness_probe is not None and liveness:
            tasks.create_task(_follow(ProbeKind.LIVENESS, container.liveness_probe, target, execute, tell))


async def _follow(
    kind: ProbeKind, asked: pod_spec.Probe, target: ProbeTarget, execute: Execute, tell: Verdict
) -> None:
    """Probe repeatedly; a startup probe ends with its first result."""
    # A command costs a process each time.
    schedule = ProbeSchedule(kind, asked, time.monotonic(), EAGER_S if asked.exec is None else EAGER_EXEC_S)
    while True:
        await asyncio.sleep(max(0.0, schedule.next_at - time.monotonic()))
        answer = await ask(asked, target, execute)
        if schedule.answered(answer.healthy, time.monotonic()):
            tell(kind, answer)
            if kind is ProbeKind.STARTUP:
                return


async def ask(probe: pod_spec.Probe, target: ProbeTarget, execute: Execute) -> Answer:
    """One probe within its timeout. Any failure is an unhealthy result, never an exception."""
    limit_s = max(probe.timeout_seconds, 1)
    if probe.exec is not None:
        return await execute(probe.exec.command, limit_s)
    if probe.http_get is not None:
        return await http_get(probe.http_get, target, limit_s)
    if probe.tcp_socket is not None:
        return await _within(probe.tcp_socket, target, limit_s, _connect)
    if probe.grpc is not None:
        return await _within(probe.grpc, target, limit_s, functools.partial(_grpc_health, probe.grpc.service))
    return Answer(False, "the probe has no httpGet, tcpSocket, grpc or exec")


async def http_get(action: api.HTTPGetAction, target: ProbeTarget, limit_s: float) -> Answer:
    """Healthy if the request is answered with 200 to 399."""
    return await _within(action, target, limit_s, functools.partial(_http_get, action))


async def _within(
    action: api.HTTPGetAction | TCPSocketAction | pod_spec.GRPCAction,
    target: ProbeTarget,
    limit_s: float,
    attempt: Callable[[str, int], Awaitable[Answer]],
) -> Answer:
    port = target.resolve(action.port)
    if port is None:
        return Answer(False, f"the container has no port {action.port!r}")
    host = target.host if isinstance(action, pod_spec.GRPCAction) else action.host or target.host
    try:
        async with asyncio.timeout(limit_s):
            return await attempt(host, port)
    except TimeoutError:
        return Answer(False, f"no response from {host}:{port} within {limit_s:g} s")
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        return Answer(False, f"{host}:{port}: {error or type(error).__name__}")


async def _connect(host: str, port: int) -> Answer:
    _, writer = await asyncio.open_connection(host, port)
    await _close(writer)
    return Answer(True, "connected")


async def _grpc_health(service: str, host: str, port: int) -> Answer:
    status = await grpc_health.check(service, host, port)
    return Answer(status == grpc_health.SERVING, f"the gRPC health service reports {status}")


async def _http_get(action: api.HTTPGetAction, host: str, port: int) -> Answer:
    tls = _unverified() if action.scheme.upper() == "HTTPS" else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=_MAX_STATUS_LINE)
    try:
        writer.write(_request(action, host, port))
        status = _status(await reader.readuntil(b"\n"))
    except asyncio.LimitOverrunError as error:
        raise ValueError("the response is not HTTP") from error
    finally:
        await _close(writer)
    return Answer(200 <= status < 400, f"HTTP probe returned {status}")


def _request(action: api.HTTPGetAction, host: str, port: int) -> bytes:
    headers = {
        "host": f"{host}:{port}",
        "user-agent": "kube-probe/headgate",
        "accept": "*/*",
        "connection": "close",
    }
    headers |= {header.name.lower(): header.value for header in action.http_headers}
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("the probe's path or headers hold a line break")
    return "\r\n".join([*lines, "", ""]).encode()


def _status(line: bytes) -> int:
    version, _, rest = line.partition(b" ")
    code = rest[:3]
    if not version.startswith(b"HTTP/1.") or not code.isdigit():
        raise ValueError("the response is not HTTP")
    return int(code)


@functools.cache  # creating one takes milliseconds
def _unverified() -> ssl.SSLContext:
    """Kubernetes' probes do not verify certificates: a container's rarely matches its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loads no CA certificates
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _close(writer: asyncio.StreamWriter) -> None:
    """Abort instead of a clean shutdown: the peer may never send its FIN."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
