"""The interface of a proxy, and the shared parts: processes, logs, readiness, shutdown."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Protocol

import httpx2

import load
import own_processes
import upstream
from headgate.serving import certificates

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench"
READY_WITHIN_S = 30.0
STOP_WITHIN_S = 5.0

Addresses = Sequence[tuple[str, int]]


class UnavailableError(Exception):
    """This proxy cannot be measured here; the message says why."""


class Proxy(Protocol):
    """The interface of a proxy for the benchmark."""

    name: ClassVar[str]
    note: ClassVar[str]
    """Its configuration in one line, for the table's footer."""
    passes_bytes: ClassVar[bool]
    """Whether it forwards responses unchanged, so that streams can be compared."""
    has_routes: ClassVar[bool]
    """Whether it can have many routes."""
    has_tls: ClassVar[bool]
    """Whether it can serve HTTPS, with HTTP/1.1 and HTTP/2."""
    is_secure: bool
    """Whether it serves HTTPS when it is started."""

    def __init__(self, cpu: int | None = None) -> None:
        """`cpu`: the only CPU that its processes may use."""

    def install(self) -> str:
        """Install it if needed; return its version. Raises UnavailableError."""

    def start(self, upstreams: Addresses, cache_aware: bool, routes: int = 0) -> tuple[int, int]:
        """Start it in front of `upstreams`; return its port and pid once it responds to a chat request.

        `cache_aware`: route by cached prefixes, if it can; otherwise by its cheapest policy. `routes`: number
        of routes besides the catch-all route, if it can have more.
        """

    def question(self, route: int) -> tuple[str, bytes]:
        """Path and body of a chat request that only this route matches."""

    def stop(self) -> None:
        """Stop every process that start() started."""


def route_name(route: int) -> str:
    return f"route-{route:06}"


def wait_until(
    ready: Callable[[], bool], what: str, alive: Callable[[], None], within_s: float = READY_WITHIN_S
) -> None:
    """Poll `ready`. Connection errors mean not yet; a dead process, by `alive`, ends the wait."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        alive()
        with contextlib.suppress(httpx2.TransportError):
            if ready():
                return
        time.sleep(0.05)
    raise UnavailableError(f"{what} was not ready within {within_s:.0f} s")


def wait_until_listening(host: str, port: int) -> None:
    def connects() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return True
        return False

    wait_until(connects, f"{host}:{port}", alive=lambda: None)


class ProxyProcesses:
    """Shared by all proxies: processes, a scratch directory with their logs, readiness, shutdown."""

    name: ClassVar[str]
    passes_bytes: ClassVar[bool] = True
    has_routes: ClassVar[bool] = False
    has_tls: ClassVar[bool] = False
    ready_within_s: ClassVar[float] = READY_WITHIN_S

    def __init__(self, cpu: int | None = None) -> None:
        self.scratch = CACHE / "run" / self.name
        self.is_secure = False
        self._prefix = [] if cpu is None else ["taskset", "-c", str(cpu)]
        self._running: list[subprocess.Popen[bytes]] = []

    def certificate(self) -> tuple[Path, Path]:
        """Files with a certificate and its key: ECDSA with P-256, the same for all proxies."""
        issued = certificates.issue("bench", ["127.0.0.1"], datetime.now(UTC))
        cert, key = self.scratch / "bench.crt", self.scratch / "bench.key"
        cert.write_bytes(issued.cert)
        key.write_bytes(issued.key)
        return cert, key

    def fresh_scratch(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)

    def spawn(self, log: str, *command: str | os.PathLike[str]) -> int:
        """Start a process in its own session, with output in a file; return its pid."""
        with (self.scratch / f"{log}.out").open("wb") as out, (self.scratch / f"{log}.err").open("wb") as err:
            process = subprocess.Popen(
                [*self._prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._running.append(process)
        return process.pid

    def check_alive(self) -> None:
        for process in self._running:
            if (status := process.poll()) is not None:
                raise UnavailableError(f"exited at its start with status {status}: {self._last_words()}")

    def _last_words(self) -> str:
        lines = [
            line for file in sorted(self.scratch.glob("*.err")) for line in file.read_text().splitlines()
        ]
        return next((line.strip() for line in reversed(lines) if line.strip()), "no output")[:200]

    def answers(self, port: int) -> None:
        """Wait until a chat request returns the engine's response unchanged."""
        scheme = "https" if self.is_secure else "http"
        url, body = (
            f"{scheme}://127.0.0.1:{port}{load.CHAT_PATH}",
            load.chat_body("You keep a gate.", "Open?"),
        )
        json = {"content-type": "application/json"}

        def ready() -> bool:
            reply = httpx2.post(url, content=body, headers=json, timeout=5, verify=False)
            return reply.status_code == 200 and (
                reply.content == upstream.COMPLETION or not self.passes_bytes
            )

        wait_until(ready, "a chat request through it", self.check_alive, self.ready_within_s)

    def question(self, route: int) -> tuple[str, bytes]:
        """Routed by its path, for a proxy that reads no JSON."""
        return f"/{route_name(route)}{load.CHAT_PATH}", load.IDLE_CONNECTION.body

    def stop(self) -> None:
        for process in reversed(self._running):
            own_processes.end(process, STOP_WITHIN_S)
        self._running.clear()
