"""A machine to test on: the embedded API server and a node, both in this process."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import api, apiserver, cluster, node

# Behaviors that are tested here and in a cluster.
sys.path.insert(0, str(Path(__file__).parent / "behaviors"))

SERVER = """
import os, socket
with socket.create_server((os.environ["POD_IP"], 8000)) as server:
    print("serving", flush=True)
    while True:
        peer, _ = server.accept()
        peer.recv(4096)
        peer.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok")
        peer.close()
"""
PATIENCE_S = 60.0
"""Nothing here takes nearly as long: it only turns a hang into a failure."""
READY = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1}


class Machine:
    """Objects in, objects out."""

    def __init__(self, client: cluster.Client, kubeconfig: Path, state: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.state = state

    @contextlib.asynccontextmanager
    async def node(self, **options: Any) -> AsyncIterator[node.Ready]:
        """A node that runs for as long as the block lasts, and is stopped in good order."""
        config = node.NodeConfig(self.state, self.kubeconfig, drain_timeout_s=2.0, **options)
        stop: asyncio.Event = asyncio.Event()
        ready: asyncio.Future[node.Ready] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(node.run_node(config, stop=stop, on_ready=ready.set_result))
            try:
                yield await ready
            finally:
                stop.set()

    async def pod(self, name: str) -> api.Pod:
        return await self.client.get(api.Pod, name, "default")

    async def pods(self) -> list[api.Pod]:
        return list(await self.client.list(api.Pod))

    async def until(self, holds: Callable[[list[api.Pod]], bool]) -> list[api.Pod]:
        """The Pods once something holds of them."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(pods := await self.pods()):
            assert time.monotonic() < deadline, f"still {[(p.metadata.name, p.status) for p in pods]}"
            await asyncio.sleep(0.03)
        return pods

    async def until_ready(self, count: int = 1) -> list[api.Pod]:
        return await self.until(lambda pods: sum(pod.ready for pod in pods) == count == len(pods))

    async def log(self, pod: str = "one", container: str = "main") -> str:
        """What a container has printed, once there is a line of it."""
        path = self.client.path_of(api.Pod.resource, pod, "default", "log")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(cluster.ApiError):
                text = (await self.client.ask("GET", path, query={"container": container})).body.decode()
                if text.endswith("\n"):
                    return text
            assert time.monotonic() < deadline
            await asyncio.sleep(0.03)

    async def events(self, reason: str) -> list[str]:
        """Messages of events of a reason, waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = [each.message for each in await self.client.list(api.Event) if each.reason == reason]
            if found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.03)


@pytest.fixture
def machine_of(tmp_path: Path) -> Callable[..., contextlib.AbstractAsyncContextManager[Machine]]:
    """An API server with some definitions, without a node; `machine.node()` starts one."""

    @contextlib.asynccontextmanager
    async def make(definitions: list[dict[str, Any]]) -> AsyncIterator[Machine]:
        config = apiserver.Config(tmp_path / "api", port=0, definitions=definitions)
        async with (
            apiserver.running(config) as server,
            cluster.Client.from_kubeconfig(server.kubeconfig) as client,
        ):
            yield Machine(client, server.kubeconfig, tmp_path / "node")

    return make


@pytest.fixture
async def machine(machine_of: Any) -> AsyncIterator[Machine]:
    """An API server without a node; `machine.node()` starts one."""
    async with machine_of([]) as made:
        yield made


@pytest.fixture
def pod_manifest() -> Callable[..., dict[str, Any]]:
    """Makes the manifest of a Pod with one container."""

    def make(
        name: str = "one", script: str = SERVER, annotations: dict[str, str] | None = None, **spec: Any
    ) -> Any:
        container = {"name": "main", "command": ["python3", "-S", "-c", script]} | spec.pop("container", {})
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
        }

    return make


@pytest.fixture
def deployment_manifest() -> Callable[..., dict[str, Any]]:
    """Makes the manifest of a Deployment of small HTTP servers."""

    def make(replicas: int = 2, version: str = "1", **spec: Any) -> Any:
        container = {
            "name": "main",
            "command": ["python3", "-S", "-c", SERVER],
            "env": [{"name": "VERSION", "value": version}],
            "readinessProbe": READY,
        }
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["kept"]}],
            },
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
                **spec,
            },
        }

    return make
