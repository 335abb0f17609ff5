"""What happened while a gateway could not reach the API server takes effect when it can."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from running import running
from traffic import route_to, server


class Link:
    """The network between a gateway and an API server, which can be cut."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target: int | None = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))

    def __enter__(self) -> Link:
        self._thread.start()
        self._is_open.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Breaks all connections, and refuses new ones."""
        self._loop.call_soon_threadsafe(self._cut)

    def join(self, target: int) -> None:
        """Leads to this port from now on."""
        self._target = target

    def _cut(self) -> None:
        self._target = None
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self) -> None:
        self._is_over = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_open.set()
        await self._is_over.wait()
        server.close()
        self._cut()
        await asyncio.sleep(0.1)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._target is None:
            writer.transport.abort()
            return
        there = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, there[1]}
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
        self._writers -= {writer, there[1]}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _flags(cluster) -> list[str]:
    """The command of the API server."""
    return running(cluster.state)["kube-apiserver"].command


def _value(words: list[str], flag: str) -> str:
    [value] = [word.removeprefix(f"--{flag}=") for word in words if word.startswith(f"--{flag}=")]
    return value


@pytest.fixture
def link(cluster) -> Iterator[Link]:
    with Link(int(_value(_flags(cluster), "secure-port"))) as made:
        yield made


@pytest.fixture
def behind(link, kubeconfig_of) -> Path:
    """The kubeconfig of a gateway that reaches the API server through the link."""
    file = kubeconfig_of("gateway")
    config = json.loads(file.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{link.port}"
    file.write_text(json.dumps(config))
    return file


@pytest.fixture
def another_server(cluster, unused_tcp_port, tmp_path, eventually) -> Iterator[Callable[[], int]]:
    """Starts a second API server of the same cluster; returns its port."""
    with contextlib.ExitStack() as running:

        def start() -> int:
            words = [
                f"--secure-port={unused_tcp_port}" if word.startswith("--secure-port=") else word
                for word in _flags(cluster)
                if not word.startswith("--audit")
            ]
            log = running.enter_context((tmp_path / "another.log").open("w"))
            process = running.enter_context(
                subprocess.Popen(words, stdout=log, stderr=log, cwd=cluster.state)
            )
            running.callback(process.kill)

            def is_ready() -> bool:
                with contextlib.suppress(httpx2.TransportError), cluster.client() as client:
                    return client.get(f"https://127.0.0.1:{unused_tcp_port}/readyz").status_code == 200
                return False

            eventually(is_ready)
            return unused_tcp_port

        yield start


def _compact(cluster) -> None:
    """Lets etcd forget all versions but the current ones."""
    etcd = _value(_flags(cluster), "etcd-servers")
    status = httpx2.post(f"{etcd}/v3/maintenance/status", json={}, trust_env=False).raise_for_status().json()
    revision = {"revision": status["header"]["revision"], "physical": True}
    httpx2.post(f"{etcd}/v3/kv/compaction", json=revision, trust_env=False).raise_for_status()


def test_it_lists_again_if_its_version_is_gone(
    cluster, namespace, apply, start_engine, start_gateway, behind, link, another_server, eventually
):
    """Its API server went away, and another one, with no memory of the time between, takes its place.

    What was deleted meanwhile goes, what was added comes, and what stayed is served all the time.
    """
    start_engine("engine")
    apply(server("engine"))
    apply(*(route_to("engine", name=name, model=name) for name in ("stays", "goes")))
    gateway = start_gateway(behind, "--namespace", namespace)
    eventually(
        lambda: (
            gateway.is_ready() and gateway.ask("goes").status_code == gateway.ask("stays").status_code == 200
        )
    )
    link.cut()
    apply(route_to("engine", name="comes", model="comes"))
    cluster.kubectl("delete", "modelroute", "goes", "-n", namespace)
    _compact(cluster)
    port = another_server()
    assert (
        gateway.ask("stays").status_code,
        gateway.ask("goes").status_code,
        gateway.ask("comes").status_code,
    ) == (200, 200, 404)
    link.join(port)
    eventually(lambda: gateway.ask("comes").status_code == 200 and gateway.ask("goes").status_code == 404)
    assert gateway.ask("stays").status_code == 200
    assert "too old resource version" in gateway.log.read_text()


def test_a_token_that_was_replaced_is_used(
    cluster, namespace, apply, start_engine, start_gateway, behind, link, eventually
):
    """As the kubelet does it with the tokens of Pods: the file changes, and the old token becomes invalid."""
    start_engine("engine")
    apply(server("engine"), route_to("engine"))
    config = json.loads(behind.read_text())
    tokens = behind.with_name("token")

    def new_token(holder: str) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": holder}}
        apply(secret)
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={holder}")
        token = cluster.kubectl("create", "token", "headgate-gateway", "-n", namespace, *bound)
        fresh = tokens.with_name("fresh")
        fresh.write_text(token.strip())
        fresh.rename(tokens)

    new_token("first")
    config["users"][0]["user"] = {"tokenFile": str(tokens)}
    behind.write_text(json.dumps(config))
    gateway = start_gateway(behind, "--namespace", namespace)
    eventually(gateway.is_ready)
    new_token("second")
    cluster.kubectl("delete", "secret", "first", "-n", namespace)
    link.cut()
    link.join(int(_value(_flags(cluster), "secure-port")))
    apply(route_to("engine", name="later", model="later"))
    eventually(lambda: gateway.ask("later").status_code == 200)


STORM = 2_000


def test_a_storm_of_events_costs_little(cluster, namespace, apply, start_engine, gateway, load, eventually):
    """Thousands of changes that alter nothing are not acted on one by one, and the one that does is."""
    start_engine("engine")
    apply(server("engine"), route_to("engine"))
    names = [f"waits-{number}" for number in range(8)]
    spec = {"nodeSelector": {"kubernetes.io/hostname": "none"}, "containers": [{"name": "x", "image": "x"}]}
    for name in names:
        metadata = {"name": name, "labels": {"app": "engine"}}
        apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    eventually(lambda: gateway.ask().status_code == 200)
    before = gateway.total("headgate_gateway_snapshots_total")
    with (
        cluster.client() as client,
        ThreadPoolExecutor(len(names)) as writers,
        load(lambda: [gateway.address], 50.0) as traffic,
    ):

        def annotate(name: str) -> set[int]:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            headers = {"Content-Type": "application/merge-patch+json"}
            bodies = ({"metadata": {"annotations": {"n": str(n)}}} for n in range(STORM // len(names)))
            return {client.patch(path, json=body, headers=headers).status_code for body in bodies}

        assert set().union(*writers.map(annotate, names)) == {200}
    assert (traffic.failures, list(traffic.statuses)) == ([], [200])
    assert gateway.total("headgate_gateway_snapshots_total") - before < STORM / 20
    cluster.kubectl("delete", "modelroute", "route", "-n", namespace)
    eventually(lambda: gateway.ask().status_code == 404)
