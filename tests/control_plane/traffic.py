"""Gateways, engines and requests for the tests of a cluster; `conftest` imports the fixtures."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

MODEL = "sim-8b"
HEADGATE = [sys.executable, "-m", "headgate"]
NO_GATEWAY_API = ("--gateway-api-controller", "")
"""Flags of a gateway of some namespaces: the chart sets so, too, as GatewayClasses are in no namespace."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Starts commands of Headgate, which end with the test; returns the file of their output.

    `program`: what to start instead of `headgate`.
    """
    with programs_in(tmp_path) as run:
        yield run


@contextlib.contextmanager
def programs_in(directory: Path) -> Iterator[Callable[..., Path]]:
    """Starts commands, which end with the block; their output is in files of a directory."""
    with contextlib.ExitStack() as running:

        def run(name: str, *words: str | Path, program: Sequence[str | Path] = HEADGATE) -> Path:
            file = directory / f"{name}.log"
            log = running.enter_context(file.open("w"))
            process = running.enter_context(
                subprocess.Popen([*program, *words], stdout=log, stderr=subprocess.STDOUT)
            )
            running.callback(process.send_signal, signal.SIGTERM)
            return file

        yield run


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


@pytest.fixture
def start_engine(cluster, namespace, node, start, new_address, eventually) -> Callable[..., Engine]:
    """Makes a Deployment of one Pod, and runs a simulated engine at its address."""

    def run(name: str) -> Engine:
        cluster.apply(node.deployment(name, replicas=1), namespace=namespace)
        [pod] = eventually(
            lambda: [each for each in node.scheduled(namespace) if each.startswith(f"{name}-")]
        )
        engine = Engine(pod, new_address())
        start(pod, "simulate", "engine", "--model", MODEL, "--host", engine.address, "--port", "8000")
        eventually(lambda: answers(f"{engine.url}/health"))
        node.run(pod, namespace, engine.address)
        return engine

    return run


class Listener:
    """An engine within the test, which counts requests. It holds its streams after their first chunk until
    `finish` is set."""

    def __init__(self, address: str, port: int) -> None:
        self.served = 0
        self.finish = threading.Event()
        of_family = {"address_family": socket.AF_INET6 if ":" in address else socket.AF_INET}
        kind = type("Server", (ThreadingHTTPServer,), of_family)
        self.server = kind((address, port), type("Handler", (_Handler,), {"listener": self}))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        self.finish.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    listener: Listener

    def do_GET(self) -> None:
        """It has no metrics and lists no models."""
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.listener.served += 1
        self.send_response(200)
        if not asked.get("stream"):
            self._send(b'{"choices": [{"message": {"content": "Hi"}}]}', "application/json")
            return
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n')
        self.listener.finish.wait()
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    """Starts engines at an address and port, which end with the test."""
    with contextlib.ExitStack() as running:

        def run(address: str, port: int = 8000) -> Listener:
            listener = Listener(address, port)
            running.callback(listener.close)
            return listener

        yield run


@dataclass(frozen=True)
class Gateway:
    """A gateway process. Requests that no Pod is ready for are rejected at once."""

    url: str
    metrics: str
    admin: str
    log: Path

    @property
    def address(self) -> str:
        """Host and port."""
        return self.url.removeprefix("http://")

    def ask(self, model: str = MODEL, **more: Any) -> httpx2.Response:
        body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}], **more}
        return httpx2.post(f"{self.url}/v1/chat/completions", json=body, trust_env=False, timeout=60)

    def is_ready(self) -> bool:
        return self.readiness() == 200

    def readiness(self) -> int:
        """The status of its readiness page; 0 if nobody answers."""
        return status(f"{self.admin}/readyz")

    def config(self) -> Any:
        """What it has made of the objects."""
        return httpx2.get(f"{self.admin}/debug/config", trust_env=False, timeout=60).json()

    def addresses(self, pool: str) -> set[str]:
        """The endpoints of a pool."""
        return {each["address"] for each in self.config()["pools"].get(pool, [])}

    def samples(self, metric: str) -> list[str]:
        """The lines of a metric."""
        page = httpx2.get(f"{self.metrics}/metrics", trust_env=False, timeout=60).text
        return [line for line in page.splitlines() if line.startswith(metric)]

    def total(self, metric: str) -> float:
        """The sum of all series of a metric."""
        lines = [line for line in self.samples(metric) if line[len(metric)] in " {"]
        return sum(float(line.split()[-1]) for line in lines)


@pytest.fixture
def start_gateway(start, unused_tcp_port_factory) -> Callable[..., Gateway]:
    """Starts a gateway with a kubeconfig and flags."""

    def run(kubeconfig: Path, *words: str, program: Sequence[str | Path] = HEADGATE) -> Gateway:
        ports = [unused_tcp_port_factory() for _ in range(3)]
        flags = zip(("--port", "--metrics-port", "--admin-port"), map(str, ports), strict=True)
        log = start(
            f"gateway-{ports[0]}",
            *("gateway", "--kubeconfig", kubeconfig, "--queue-no-endpoint-wait-s", "0"),
            *(word for pair in flags for word in pair),
            *words,
            program=program,
        )
        return Gateway(*(f"http://127.0.0.1:{port}" for port in ports), log)

    return run


def answers(url: str) -> bool:
    return status(url) == 200


def status(url: str) -> int:
    """0 if nobody answers."""
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(url, trust_env=False, timeout=10).status_code
    return 0


def server(name: str, **spec: Any) -> dict[str, Any]:
    """A ModelServer for the Pods with the label app=NAME."""
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": name},
        "spec": {
            "inferenceEngine": "vLLM",
            "model": MODEL,
            "workloadSelector": {"matchLabels": {"app": name}},
            "workloadPort": {"port": 8000},
            **spec,
        },
    }


def route_to(server: str, model: str = MODEL, name: str = "route") -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": name},
        "spec": {
            "modelName": model,
            "rules": [{"name": "all", "targetModels": [{"modelServerName": server}]}],
        },
    }
