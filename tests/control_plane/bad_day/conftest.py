"""A gateway that serves the routes of a real cluster, over simulated engines at addresses of Pods."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

MODEL = "sim-8b"
HEADGATE = [sys.executable, "-m", "headgate"]
SHIFTED = """
import mmap, os, runpy, struct, sys, time
page = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 8, prot=mmap.PROT_READ)
real = time.time
time.time = lambda: real() + struct.unpack("d", page)[0]
sys.argv[:2] = ["headgate"]
runpy.run_module("headgate", run_name="__main__")
"""
"""Runs Headgate on a machine whose clock is set wrong, by the seconds in a file."""
FAST = ("--base-s", "0.002", "--per-start-s", "0")
"""Of a simulated engine: it can serve hundreds of requests a second."""
BODY = json.dumps(
    {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
).encode()
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


def _status(url: str) -> int:
    """0 if nobody answers."""
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(url, trust_env=False, timeout=10).status_code
    return 0


@dataclass(frozen=True)
class Gateway:
    """A running gateway."""

    port: int
    metrics_port: int
    admin_port: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def readiness(self) -> int:
        """The status of its readiness page; 0 if nobody answers."""
        return _status(f"http://127.0.0.1:{self.admin_port}/readyz")

    def ask(self, model: str = MODEL) -> int:
        """The status of the response to a request."""
        body = json.loads(BODY) | {"model": model}
        url = f"{self.url}/v1/chat/completions"
        return httpx2.post(url, json=body, trust_env=False, timeout=60).status_code

    def metric(self, name: str) -> float:
        """The sum of all series of a metric."""
        page = httpx2.get(f"http://127.0.0.1:{self.metrics_port}/metrics", trust_env=False, timeout=60).text
        lines = [line for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.split()[-1]) for line in lines)


@dataclass(frozen=True)
class Engine:
    """A simulated engine, as the Pod whose address it has."""

    pod: str
    address: str

    @property
    def url(self) -> str:
        return f"http://{self.address}:8000"

    def served(self) -> int:
        """How many requests it has finished."""
        page = httpx2.get(f"{self.url}/metrics", trust_env=False, timeout=60).text
        lines = [line for line in page.splitlines() if line.startswith("vllm:request_success_total")]
        return sum(int(float(line.split()[-1])) for line in lines)


class Load:
    """Clients that send a number of requests a second, whatever becomes of them, until the block ends.

    Each takes an idle connection, or opens one to any of the current addresses, as the proxy of a Service
    would. A request on an idle connection that turns out to be closed is sent once more on another one, as
    HTTP clients do.
    """

    def __init__(self, addresses: Callable[[], Sequence[str]], rate: float) -> None:
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []
        """Of requests that got no response."""
        self._addresses = addresses
        self._rate = rate
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def requests(self) -> int:
        """How many are over."""
        return self.statuses.total() + len(self.failures)

    async def _run(self) -> None:
        began, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not self._is_over.is_set():
                while sent < (time.monotonic() - began) * self._rate:
                    sent += 1
                    group.create_task(self._request())
                await asyncio.sleep(0.005)
        for _, writer in self._idle:
            writer.close()

    async def _request(self) -> None:
        try:
            async with asyncio.timeout(60):
                if self._idle:
                    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                        self.statuses[await self._exchange(*self._idle.pop())] += 1
                        return
                host, port = random.choice(self._addresses()).rsplit(":", 1)
                self.statuses[await self._exchange(*await asyncio.open_connection(host, int(port)))] += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError, IndexError) as error:
            self.failures.append(repr(error))

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        """Sends a request and reads the response. IncompleteReadError if the connection ends before it."""
        is_kept = False
        try:
            writer.write(REQUEST)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            [length] = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(length)
            is_kept = b"\r\nconnection: close\r\n" not in head
        finally:
            if is_kept:
                self._idle.append((reader, writer))
            else:
                writer.close()
        return int(head[9:12])


@dataclass(frozen=True)
class Objects:
    """Makes objects of Kthena's networking group, in one namespace."""

    apply: Callable[..., None]

    def server(self, name: str, model: str = MODEL) -> dict[str, Any]:
        """A ModelServer for the Pods of a Deployment."""
        return {
            "apiVersion": "networking.volcano.sh/v1alpha1",
            "kind": "ModelServer",
            "metadata": {"name": name},
            "spec": {
                "inferenceEngine": "vLLM",
                "model": model,
                "workloadSelector": {"matchLabels": {"app": name}},
                "workloadPort": {"port": 8000},
            },
        }

    def route(self, server: str, *, name: str = "route", model: str = MODEL) -> dict[str, Any]:
        """A ModelRoute of a model to one ModelServer."""
        return {
            "apiVersion": "networking.volcano.sh/v1alpha1",
            "kind": "ModelRoute",
            "metadata": {"name": name},
            "spec": {
                "modelName": model,
                "rules": [{"name": "all", "targetModels": [{"modelServerName": server}]}],
            },
        }


@pytest.fixture
def objects(cluster, namespace) -> Objects:
    return Objects(lambda *manifests: cluster.apply(*manifests, namespace=namespace))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts commands of Headgate, which end with the test. NAME.log has what they print.

    `clock`: a file with a double, by which the clock of the command is set wrong.
    """
    with contextlib.ExitStack() as running:

        def run(name: str, *words: str | Path, clock: Path | None = None) -> subprocess.Popen[bytes]:
            log = running.enter_context((tmp_path / f"{name}.log").open("w"))
            program = HEADGATE if clock is None else [sys.executable, "-c", SHIFTED, clock]
            process = running.enter_context(
                subprocess.Popen([*program, *words], stdout=log, stderr=subprocess.STDOUT)
            )
            running.callback(process.send_signal, signal.SIGTERM)
            return process

        yield run


@pytest.fixture
def start_engines(cluster, objects, process_node, namespace) -> Callable[..., list[Engine]]:
    """Makes a Deployment of simulated engines, which run as processes at the addresses of their Pods."""
    node = process_node("node", "10.244.80.0/24")

    def run(name: str, replicas: int = 1) -> list[Engine]:
        container = {
            "name": "engine",
            "image": "headgate",
            "command": ["headgate", "simulate", "engine", "--model", MODEL, *FAST],
            "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
        }
        labels = {"app": name}
        spec = {"nodeSelector": {"kubernetes.io/hostname": node.name}, "containers": [container]}
        deployment = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }
        objects.apply(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": deployment}
        )
        place = ("-n", namespace)
        cluster.kubectl("rollout", "status", f"deployment/{name}", *place, "--timeout=60s")
        pods = cluster.get("pods", *place, "-l", f"app={name}")["items"]
        return [Engine(pod["metadata"]["name"], pod["status"]["podIP"]) for pod in pods]

    return run


@pytest.fixture
def start_engine(start_engines) -> Callable[[str], Engine]:
    """Makes a Deployment of one simulated engine."""
    return lambda name: start_engines(name)[0]


@pytest.fixture
def start_gateway(namespace, start, unused_tcp_port_factory, tmp_path) -> Callable[..., Gateway]:
    """Starts a gateway for the namespace, which rejects requests that no Pod is ready for."""

    def run(name: str, kubeconfig: Path, clock: Path | None = None) -> Gateway:
        ports = [unused_tcp_port_factory() for _ in range(3)]
        process = start(
            name,
            *("gateway", "--kubeconfig", kubeconfig, "--namespace", namespace, "--port", str(ports[0])),
            *("--metrics-port", str(ports[1]), "--admin-port", str(ports[2])),
            *("--queue-no-endpoint-wait-s", "0"),
            clock=clock,
        )
        return Gateway(*ports, tmp_path / f"{name}.log", process)

    return run


@pytest.fixture
def gateway(kubeconfig_of, start_gateway, eventually) -> Gateway:
    """A gateway with the rights of the chart."""
    started = start_gateway("gateway", kubeconfig_of("gateway"))
    eventually(lambda: started.readiness() == 200)
    return started


@pytest.fixture
def load() -> Callable[..., Load]:
    """Makes the traffic of clients."""
    return lambda addresses, rate=200.0: Load(addresses, rate)


def _pid(state: Path, program: str) -> int:
    """Of a program of the control plane with this state directory."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_text(errors="replace").split("\0")
            if Path(words[0]).name == program and str(state) in str(words):
                return int(path.parent.name)
    raise AssertionError(f"{program} does not run")


@pytest.fixture
def paused(cluster) -> Callable[[str], contextlib.AbstractContextManager[None]]:
    """Makes blocks during which a program of the control plane does not run."""

    @contextlib.contextmanager
    def block(program: str) -> Iterator[None]:
        pid = _pid(cluster.state, program)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return block
