"""`headgate gateway` serves the routes of a real cluster over Pods at addresses of its Pod network."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

MODEL = "sim-8b"
OUTAGE_S = 15.0
HEADGATE = [sys.executable, "-m", "headgate"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Starts commands of Headgate, which end with the test."""
    with contextlib.ExitStack() as running:

        def run(name: str, *words: str | Path) -> None:
            log = running.enter_context((tmp_path / f"{name}.log").open("w"))
            process = running.enter_context(
                subprocess.Popen([*HEADGATE, *words], stdout=log, stderr=subprocess.STDOUT)
            )
            running.callback(process.send_signal, signal.SIGTERM)

        yield run


@pytest.fixture
def start_engine(cluster, namespace, node, start, new_address, eventually) -> Callable[[str], Engine]:
    """Makes a Deployment of one Pod, and runs a simulated engine at its address."""

    def run(name: str) -> Engine:
        cluster.apply(node.deployment(name, replicas=1), namespace=namespace)
        [pod] = eventually(
            lambda: [each for each in node.scheduled(namespace) if each.startswith(f"{name}-")]
        )
        engine = Engine(pod, new_address())
        start(pod, "simulate", "engine", "--model", MODEL, "--host", engine.address, "--port", "8000")
        eventually(lambda: _answers(f"{engine.url}/health"))
        node.run(pod, namespace, engine.address)
        return engine

    return run


@pytest.fixture
def gateway(kubeconfig_of, namespace, start, unused_tcp_port_factory, eventually) -> str:
    """The address of a gateway that serves the namespace with the rights of the chart, and rejects requests
    that no Pod is ready for."""
    port, metrics, admin = (str(unused_tcp_port_factory()) for _ in range(3))
    start(
        "gateway",
        *("gateway", "--kubeconfig", kubeconfig_of("gateway"), "--namespace", namespace, "--port", port),
        *("--metrics-port", metrics, "--admin-port", admin, "--queue-no-endpoint-wait-s", "0"),
    )
    url = f"http://127.0.0.1:{port}"
    eventually(lambda: _answers(f"{url}/readyz"))
    return url


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


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(url, trust_env=False, timeout=10).status_code == 200
    return False


def _server(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": name},
        "spec": {
            "inferenceEngine": "vLLM",
            "model": MODEL,
            "workloadSelector": {"matchLabels": {"app": name}},
            "workloadPort": {"port": 8000},
        },
    }


def _route_to(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "route"},
        "spec": {
            "modelName": MODEL,
            "rules": [{"name": "all", "targetModels": [{"modelServerName": server}]}],
        },
    }


def _ask(gateway: str) -> int:
    """The status of the response to a request."""
    body = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
    return httpx2.post(f"{gateway}/v1/chat/completions", json=body, trust_env=False, timeout=60).status_code


def test_a_route_is_served_and_its_edits_are_followed(cluster, namespace, start_engine, gateway, eventually):
    """After an edit, no request goes to the server that the route named before."""
    assert _ask(gateway) == 404
    first, second = start_engine("first"), start_engine("second")
    cluster.apply(_server("first"), _server("second"), _route_to("first"), namespace=namespace)
    eventually(lambda: _ask(gateway) == 200)
    assert (first.served(), second.served()) == (1, 0)

    cluster.apply(_route_to("second"), namespace=namespace)
    eventually(lambda: _ask(gateway) == 200 and second.served() > 0)
    before = first.served()
    assert [_ask(gateway) for _ in range(5)] == [200] * 5
    assert first.served() == before

    cluster.kubectl("delete", "modelroute", "route", "-n", namespace)
    eventually(lambda: _ask(gateway) == 404)


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Id and command line of all that run."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield int(path.parent.name), path.read_text(errors="replace").split("\0")


@contextlib.contextmanager
def paused(state: Path, program: str) -> Iterator[None]:
    """A program of the control plane does not run for as long as the block lasts."""
    [pid] = [
        pid for pid, words in _processes() if Path(words[0]).name == program and str(state) in str(words)
    ]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("program", ["etcd", "kube-apiserver"])
def test_an_outage_of_the_control_plane_changes_nothing_for_traffic(
    cluster, namespace, start_engine, gateway, eventually, program
):
    """Requests are served by what is known, and the next edit is followed once there is somebody to tell."""
    engine, other = start_engine("before"), start_engine("after")
    cluster.apply(_server("before"), _server("after"), _route_to("before"), namespace=namespace)
    eventually(lambda: _ask(gateway) == 200)
    began, statuses = time.monotonic(), []
    with paused(cluster.state, program):
        while time.monotonic() - began < OUTAGE_S:
            statuses.append(_ask(gateway))
            time.sleep(0.05)
    assert set(statuses) == {200}
    assert len(statuses) > 20
    assert engine.served() == len(statuses) + 1
    eventually(lambda: cluster.request("/readyz", None).status_code in (200, 401, 403))
    cluster.apply(_route_to("after"), namespace=namespace)
    eventually(lambda: _ask(gateway) == 200 and other.served() > 0)


def test_a_gateway_that_starts_during_an_outage_is_not_ready(
    cluster, namespace, start, unused_tcp_port_factory, eventually, tmp_path
):
    """It says so, and becomes ready by itself."""
    port, metrics, admin = (str(unused_tcp_port_factory()) for _ in range(3))
    with paused(cluster.state, "kube-apiserver"):
        start(
            "late",
            *("gateway", "--kubeconfig", cluster.kubeconfig, "--namespace", namespace, "--port", port),
            *("--metrics-port", metrics, "--admin-port", admin),
        )
        eventually(lambda: _status(f"http://127.0.0.1:{admin}/readyz") == 503)
        assert _ask(f"http://127.0.0.1:{port}") == 503
    eventually(lambda: _answers(f"http://127.0.0.1:{admin}/readyz"))


def _status(url: str) -> int:
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(url, trust_env=False, timeout=10).status_code
    return 0


def test_a_pod_that_is_not_ready_gets_no_requests(
    cluster, namespace, node, start_engine, gateway, eventually
):
    engine = start_engine("alone")
    cluster.apply(_server("alone"), _route_to("alone"), namespace=namespace)
    eventually(lambda: _ask(gateway) == 200)
    node.run(engine.pod, namespace, engine.address, ready=False)
    eventually(lambda: _ask(gateway) == 503)
    node.run(engine.pod, namespace, engine.address)
    eventually(lambda: _ask(gateway) == 200)
