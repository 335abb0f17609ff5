"""The proxies that are compared, behind one seam: install, start in front of some engines, stop.

Each keeps its defaults where it can; what is set, and why, is said beside the setting. Whatever a proxy logs
goes to a file of its own, so that none of them is spared the writing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import ClassVar, Protocol

import httpx2

import load
import objects
import upstream

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "bench"
READY_WITHIN_S = 30.0
STOP_WITHIN_S = 5.0

Addresses = Sequence[tuple[str, int]]


class UnavailableError(Exception):
    """This proxy cannot be measured here; the message says why."""


class Proxy(Protocol):
    """What the benchmark asks of a proxy."""

    name: ClassVar[str]
    note: ClassVar[str]
    """How it is configured, in one line, for the table's foot."""

    def __init__(self, cpu: int | None = None) -> None:
        """`cpu`: the one CPU that its processes may use."""

    def install(self) -> str:
        """Make it runnable if it is not yet; return its version. Raises UnavailableError."""

    def start(self, upstreams: Addresses, cache_aware: bool) -> tuple[int, int]:
        """Start it in front of `upstreams`; return its port and pid once it answers a chat request.

        `cache_aware`: route by cached prefixes, if it can; otherwise by its cheapest policy.
        """

    def stop(self) -> None:
        """End every process that start() began."""


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(ready: Callable[[], bool], what: str, alive: Callable[[], None]) -> None:
    """Poll `ready`; connection errors count as not yet, a process that `alive` finds dead ends the wait."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        alive()
        with contextlib.suppress(httpx2.TransportError):
            if ready():
                return
        time.sleep(0.05)
    raise UnavailableError(f"{what} was not ready within {READY_WITHIN_S:.0f} s")


def wait_until_listening(host: str, port: int) -> None:
    def connects() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return True
        return False

    wait_until(connects, f"{host}:{port}", alive=lambda: None)


class ProxyProcesses:
    """What all proxies share: processes, a scratch directory with their logs, readiness, and the end."""

    name: ClassVar[str]

    def __init__(self, cpu: int | None = None) -> None:
        self.scratch = CACHE / "run" / self.name
        self._prefix = [] if cpu is None else ["taskset", "-c", str(cpu)]
        self._running: list[subprocess.Popen[bytes]] = []

    def fresh_scratch(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)

    def spawn(self, log: str, *command: str | os.PathLike[str]) -> int:
        """Start a process in a session of its own, its output in a file; return its pid."""
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
                raise UnavailableError(f"ended at its start with status {status}: {self._last_words()}")

    def _last_words(self) -> str:
        lines = [
            line for file in sorted(self.scratch.glob("*.err")) for line in file.read_text().splitlines()
        ]
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")[:200]

    def answers(self, port: int) -> None:
        """Wait until a chat request comes back as the engine wrote it."""
        url, body = f"http://127.0.0.1:{port}{load.CHAT_PATH}", load.chat_body("You keep a gate.", "Open?")

        def ready() -> bool:
            reply = httpx2.post(url, content=body, headers={"content-type": "application/json"}, timeout=5)
            return reply.status_code == 200 and reply.content == upstream.COMPLETION

        wait_until(ready, "a chat request through it", self.check_alive)

    def stop(self) -> None:
        for process in reversed(self._running):
            self._end(process)
        self._running.clear()

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Headgate(ProxyProcesses):
    """Ours: a gateway process that reads its objects from an embedded API server, all at its defaults."""

    name: ClassVar[str] = "headgate"
    note: ClassVar[str] = "one process, all features at their defaults, access log to a file"
    _executable = Path(sys.executable).with_name("headgate")

    def install(self) -> str:
        for command in ("apiserver", "gateway"):
            shown = subprocess.run(
                [self._executable, command, "--help"], capture_output=True, text=True, check=False
            )
            if shown.returncode != 0:
                reason = (shown.stderr.strip() or "it said nothing").splitlines()[-1]
                raise UnavailableError(f"`headgate {command} --help`: {reason}".replace(str(ROOT), "."))
        return metadata.version("headgate")

    def start(self, upstreams: Addresses, cache_aware: bool) -> tuple[int, int]:
        self.fresh_scratch()
        state = self.scratch / "state"
        kubeconfig = state / "kubeconfig"
        port, admin = free_port(), free_port()
        self.spawn("apiserver", self._executable, "apiserver", "--state", state, "--port", str(free_port()))
        wait_until(kubeconfig.exists, "the API server's kubeconfig", self.check_alive)
        objects.declare(kubeconfig, upstreams)
        pid = self.spawn(
            "gateway",
            *(self._executable, "gateway", "--kubeconfig", kubeconfig, "--port", str(port)),
            *("--metrics-port", str(free_port()), "--admin-port", str(admin)),
        )
        wait_until(
            lambda: httpx2.get(f"http://127.0.0.1:{admin}/readyz").status_code == 200,
            "the gateway's /readyz",
            self.check_alive,
        )
        self.answers(port)
        return port, pid


class Nginx(ProxyProcesses):
    """A plain HTTP proxy in C: what moving the bytes costs, without reading them."""

    name: ClassVar[str] = "nginx"
    note: ClassVar[str] = (
        "one worker, plain proxy (reads no JSON), round robin, keep-alive, access log to a file"
    )

    # Buffering off: with it nginx would hold back the chunks of a stream. keepalive_requests: by default a
    # connection is closed after 1,000 requests, and reconnecting is not what is measured.
    _CONFIGURATION = """
daemon off;
worker_processes 1;
pid {scratch}/nginx.pid;
error_log {scratch}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log {scratch}/access.log combined;
  client_body_temp_path {scratch}/body;
  proxy_temp_path {scratch}/proxy;
  fastcgi_temp_path {scratch}/fastcgi;
  uwsgi_temp_path {scratch}/uwsgi;
  scgi_temp_path {scratch}/scgi;
  keepalive_requests 1000000000;
  upstream engines {{
    {servers}
    keepalive 512;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""

    def install(self) -> str:
        executable = self._find()
        shown = subprocess.run([executable, "-v"], capture_output=True, text=True, check=True).stderr
        return shown.strip().rpartition("/")[2]

    @staticmethod
    def _find() -> str:
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
        if executable := shutil.which("nginx", path=path):
            return executable
        raise UnavailableError("nginx is not installed: apt-get install nginx")

    def start(self, upstreams: Addresses, cache_aware: bool) -> tuple[int, int]:
        self.fresh_scratch()
        scratch, port = self.scratch, free_port()
        servers = "\n    ".join(f"server {host}:{number};" for host, number in upstreams)
        file = scratch / "nginx.conf"
        file.write_text(self._CONFIGURATION.format(scratch=scratch, servers=servers, port=port))
        pid = self.spawn("nginx", self._find(), "-p", scratch, "-c", file, "-e", scratch / "error.log")
        self.answers(port)
        return port, pid


_ROUTER_NOTE = (
    "defaults (a thread per core, log to a file), "
    + "except the policy: cache_aware where the row says so, else round_robin"
)


class PackagedRouter(ProxyProcesses):
    """A router from the package index, in an environment of its own."""

    note: ClassVar[str]
    pinned: ClassVar[str]
    module: ClassVar[str]

    def __init__(self, cpu: int | None = None) -> None:
        super().__init__(cpu)
        self._environment = CACHE / self.name
        self._python = self._environment / "bin" / "python"

    def install(self) -> str:
        if version := self._version():
            return version
        print(f"Installing {self.name} into {self._environment.relative_to(ROOT)} ...", file=sys.stderr)
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", self._environment], check=False)
        if made.returncode != 0:
            raise UnavailableError(f"python -m venv ended with status {made.returncode}")
        # The pinned version, then the newest that works: an index may have dropped the old one.
        problem = self._pip(f"{self.name}=={self.pinned}") and self._pip(self.name)
        if problem or not (version := self._version()):
            raise UnavailableError(f"pip install {self.name}: {problem or 'it does not import'}")
        return version

    def _pip(self, requirement: str) -> str | None:
        """Install; return what went wrong. Progress goes to standard error."""
        options = ["--disable-pip-version-check", "--only-binary", ":all:"]
        ran = subprocess.run(
            [self._python, "-m", "pip", "install", *options, requirement],
            stdout=sys.stderr,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        errors = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
        return None if ran.returncode == 0 else (errors or ["pip failed without a reason"])[-1]

    def _version(self) -> str | None:
        if not self._python.exists():
            return None
        script = f"import {self.module}, importlib.metadata as m; print(m.version('{self.name}'))"
        shown = subprocess.run([self._python, "-c", script], capture_output=True, text=True, check=False)
        return shown.stdout.strip() if shown.returncode == 0 else None

    def start(self, upstreams: Addresses, cache_aware: bool) -> tuple[int, int]:
        self.fresh_scratch()
        port = free_port()
        pid = self.spawn(
            "router",
            *(self._python, "-m", f"{self.module}.launch_router", "--host", "127.0.0.1", "--port", str(port)),
            *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())),
            *("--policy", "cache_aware" if cache_aware else "round_robin"),
            # Workers are looked at every 30 s by default, which would only be a wait here.
            *("--worker-startup-check-interval", "1"),
            *("--worker-urls", *(f"http://{host}:{number}" for host, number in upstreams)),
        )
        self.answers(port)
        return port, pid


class VllmRouter(PackagedRouter):
    name: ClassVar[str] = "vllm-router"
    note: ClassVar[str] = _ROUTER_NOTE
    pinned: ClassVar[str] = "0.1.17"
    module: ClassVar[str] = "vllm_router"


class SglangRouter(PackagedRouter):
    name: ClassVar[str] = "sglang-router"
    note: ClassVar[str] = _ROUTER_NOTE
    pinned: ClassVar[str] = "0.3.2"
    module: ClassVar[str] = "sglang_router"


_ALL: tuple[type[Proxy], ...] = (Headgate, Nginx, VllmRouter, SglangRouter)
PROXIES = {proxy.name: proxy for proxy in _ALL}
