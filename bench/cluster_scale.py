"""What the Pods of a large cluster cost a gateway: `python bench/cluster_scale.py`.

Creates Pods as large as those of real engines on an embedded API server, or on the server of `--kubeconfig`.
Starts a gateway, and measures the growth of its memory, the CPU time of the first list, and that of one
event. Engines are not asked for metrics: none runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

import cpu
import kube
import own_processes

PODS_OF_A_POOL = 100
AT_ONCE = 8
SETTLE_S = 3.0
"""A gateway that has had no event for so long has dealt with all."""
IDLE_S = 10.0
"""For how long the CPU time of a gateway without events is measured."""
MERGE = "application/merge-patch+json"


class Cost(NamedTuple):
    """Of a number of Pods, for one gateway process with one worker."""

    pods: int
    memory_kb: float
    """Above that of a gateway without Pods."""
    list_s: float
    """CPU time above that of a gateway without Pods, from its start to its readiness."""
    list_peak_kb: float
    idle_ms: float
    """CPU time of an event that changes nothing for routing."""
    ready_ms: float
    """CPU time of an event that takes an endpoint from a pool, or returns it."""


@click.command()
@click.option("--pods", "counts", multiple=True, type=int, default=(1000, 5000), show_default=True)
@click.option("--events", default=1000, show_default=True, help="Events of each kind.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="A server to use, as its administrator.")
def main(counts: tuple[int, ...], events: int, kubeconfig: Path | None) -> None:
    """Print a table."""
    machine = cpu.machine()
    print(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}")
    print(f"{'Pods':>6} {'memory':>10} {'a Pod':>9} {'peak':>10} {'list':>8} {'event':>16} {'readiness':>16}")
    with contextlib.ExitStack() as running:
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory()))
        if kubeconfig is None:
            running.enter_context(own_processes.apiserver(scratch))
        rig = _Rig(scratch, kubeconfig or scratch / "state" / "kubeconfig")
        asyncio.run(_measure(rig, sorted(counts), events))


class _Rig(NamedTuple):
    """Files of the processes, and the API server."""

    scratch: Path
    kubeconfig: Path


async def _measure(rig: _Rig, counts: list[int], events: int) -> None:
    """Print each row as soon as it is known."""
    cluster = kube.Cluster.load(rig.kubeconfig)
    async with _namespace(cluster) as namespace:
        objects = _Objects(cluster, namespace)
        empty = await _start(rig, namespace)
        for count in counts:
            await objects.grow(count)
            cost = await _cost(rig, objects, count, events, empty)
            print(
                f"{cost.pods:>6,} {cost.memory_kb / 1024:>7.1f} MB {cost.memory_kb / cost.pods:>6.1f} KB"
                f" {cost.list_peak_kb / 1024:>7.1f} MB {cost.list_s:>6.2f} s"
                f" {cost.idle_ms:>9.2f} ms CPU {cost.ready_ms:>9.2f} ms CPU",
                flush=True,
            )


@contextlib.asynccontextmanager
async def _namespace(cluster: kube.Cluster) -> AsyncIterator[str]:
    name = f"scale-{uuid.uuid4().hex[:8]}"
    connection = await cluster.connect()
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await connection.send("POST", "/api/v1/namespaces", body)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    path = f"/api/v1/namespaces/{name}/serviceaccounts"
    await connection.request("POST", path, json.dumps(account).encode())  # a controller may be faster
    yield name
    await connection.request("DELETE", f"/api/v1/namespaces/{name}")
    connection.close()


class _Started(NamedTuple):
    memory_kb: float
    peak_kb: float
    cpu_s: float


async def _start(rig: _Rig, namespace: str) -> _Started:
    with _gateway(rig, namespace) as pid:
        return await _settled(pid)


@contextlib.contextmanager
def _gateway(rig: _Rig, namespace: str) -> Iterator[int]:
    flags = ("--namespace", namespace, "--engine-metrics-enabled", "false")
    with own_processes.gateway(rig.scratch, *flags, kubeconfig=rig.kubeconfig) as (process, _):
        yield process.pid


async def _settled(pid: int) -> _Started:
    spent = cpu.cpu_seconds(pid)
    await asyncio.sleep(SETTLE_S)
    return _Started(cpu.memory_kb(pid), cpu.peak_memory_mb(pid) * 1024, spent)


async def _cost(rig: _Rig, objects: _Objects, count: int, events: int, empty: _Started) -> Cost:
    with _gateway(rig, objects.namespace) as pid:
        started = await _settled(pid)
        idle_ms = await _event_ms(pid, objects.touch, count, events)
        ready_ms = await _event_ms(pid, objects.flip, count, events)
    return Cost(
        count,
        started.memory_kb - empty.memory_kb,
        started.cpu_s - empty.cpu_s,
        started.peak_kb - empty.peak_kb,
        idle_ms,
        ready_ms,
    )


async def _event_ms(
    pid: int, change: Callable[[int, int], Awaitable[None]], count: int, events: int
) -> float:
    """CPU time of one event, without that of a gateway that has none for as long."""
    before, began = cpu.cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(IDLE_S)
    idle_share = (cpu.cpu_seconds(pid) - before) / (time.monotonic() - began)
    before, began = cpu.cpu_seconds(pid), time.monotonic()
    numbers = iter(range(events))

    async def change_some() -> None:
        for number in numbers:
            await change(number * (count // events or 1) % count, number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(change_some())
    await asyncio.sleep(SETTLE_S)
    spent = cpu.cpu_seconds(pid) - before - idle_share * (time.monotonic() - began)
    return max(spent, 0.0) * 1000 / events


class _Objects:
    """The Pods, in pools of 100, with a route to each pool."""

    def __init__(self, cluster: kube.Cluster, namespace: str) -> None:
        self.namespace = namespace
        self._cluster = cluster
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._networking = f"/apis/networking.volcano.sh/v1alpha1/namespaces/{namespace}"
        self._count = 0
        self._idle: list[kube.Connection] = []

    async def grow(self, count: int) -> None:
        numbers = iter(range(self._count, count))
        self._count = count

        async def create() -> None:
            connection = await self._cluster.connect()
            for number in numbers:
                await self._create(connection, number)
            connection.close()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(create())

    async def _create(self, connection: kube.Connection, number: int) -> None:
        if number % PODS_OF_A_POOL == 0:
            pool = number // PODS_OF_A_POOL
            await connection.send("POST", f"{self._networking}/modelservers", _server_of(pool))
            await connection.send("POST", f"{self._networking}/modelroutes", _route_of(pool))
        await connection.send("POST", self._pods, _pod(number))
        await self._report(connection, number, {"status": _status(number)})

    async def _report(self, connection: kube.Connection, number: int, body: dict[str, Any]) -> None:
        await connection.send("PATCH", f"{self._pods}/{_name(number)}/status", body, MERGE)

    async def touch(self, number: int, round_: int) -> None:
        """Change a restart count, as a node does."""
        status = _status(number, restarts=round_ + 1)
        await self._change(number, status)

    async def flip(self, number: int, round_: int) -> None:
        """The Pod is no longer ready."""
        status = _status(number, ready="False", restarts=round_ + 1)
        await self._change(number, status)

    async def _change(self, number: int, status: dict[str, Any]) -> None:
        connection = self._idle.pop() if self._idle else await self._cluster.connect()
        await self._report(connection, number, {"status": status})
        self._idle.append(connection)


def _name(number: int) -> str:
    return f"llama-{number // PODS_OF_A_POOL}-7c9f6d5b8-{number:05}"


def _server_of(pool: int) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": f"llama-{pool}"},
        "spec": {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": {"app": f"llama-{pool}"}},
            "workloadPort": {"port": 8000},
        },
    }


def _route_of(pool: int) -> dict[str, Any]:
    targets = [{"modelServerName": f"llama-{pool}"}]
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": f"llama-{pool}"},
        "spec": {"modelName": f"llama-{pool}", "rules": [{"name": "all", "targetModels": targets}]},
    }


def _pod(number: int) -> dict[str, Any]:
    """As a Deployment of vLLM makes them, with what admission and the network add."""
    pool = number // PODS_OF_A_POOL
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5, "timeoutSeconds": 2}
    network = [
        {"name": "cluster", "interface": "eth0", "ips": [_address(number)], "mac": f"0a:58:{number:08}"}
    ]
    secrets = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": name.lower()}}}
        for name in ("HF_TOKEN", "S3_ACCESS_KEY", "S3_SECRET_KEY")
    ]
    plain = [{"name": f"VLLM_OPTION_{index}", "value": f"value-{index}"} for index in range(12)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": _name(number),
            "labels": {
                "app": f"llama-{pool}",
                "app.kubernetes.io/name": "vllm",
                "app.kubernetes.io/part-of": "serving",
                "pod-template-hash": "7c9f6d5b8",
                "topology.example.com/rack": f"rack-{number % 20}",
            },
            "annotations": {
                "prometheus.io/path": "/metrics",
                "prometheus.io/port": "8000",
                "k8s.v1.cni.cncf.io/network-status": json.dumps(network),
                "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z",
                "checksum/config": uuid.uuid5(uuid.NAMESPACE_URL, str(pool)).hex * 2,
            },
        },
        "spec": {
            "schedulerName": "none",  # a Pod of a node that does not exist would be deleted
            "containers": [
                {
                    "name": "vllm",
                    "image": "registry.example.com/vllm/vllm-openai:v0.11.0",
                    "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
                    "args": [
                        *("--model", "meta-llama/Llama-3.1-8B-Instruct", "--port", "8000"),
                        *("--max-model-len", "32768", "--gpu-memory-utilization", "0.92"),
                        *("--enable-prefix-caching", "--tensor-parallel-size", "1"),
                    ],
                    "env": [*plain, *secrets],
                    "ports": [{"containerPort": 8000, "name": "http"}],
                    "resources": {
                        "requests": {"cpu": "8", "memory": "64Gi"},
                        "limits": {"memory": "64Gi", "nvidia.com/gpu": "1"},
                    },
                    "readinessProbe": probe,
                    "livenessProbe": probe,
                    "startupProbe": {**probe, "failureThreshold": 120},
                    "volumeMounts": [{"name": "cache", "mountPath": "/root/.cache"}],
                }
            ],
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        },
    }


def _address(number: int) -> str:
    return f"10.{number // 65536 + 1}.{number // 256 % 256}.{number % 256}"


def _status(number: int, *, ready: str = "True", restarts: int = 0) -> dict[str, Any]:
    since = "2026-01-01T00:00:00Z"
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "hostIP": f"10.200.{number % 500 // 250}.{number % 250 + 1}",
        "hostIPs": [{"ip": f"10.200.{number % 500 // 250}.{number % 250 + 1}"}],
        "podIP": _address(number),
        "podIPs": [{"ip": _address(number)}],
        "startTime": since,
        "conditions": [
            {"type": each, "status": ready if "eady" in each[-5:] else "True", "lastTransitionTime": since}
            for each in types
        ],
        "containerStatuses": [
            {
                "name": "vllm",
                "ready": ready == "True",
                "started": True,
                "restartCount": restarts,
                "image": "registry.example.com/vllm/vllm-openai:v0.11.0",
                "imageID": f"registry.example.com/vllm/vllm-openai@sha256:{'ab' * 32}",
                "containerID": f"containerd://{number:064x}",
                "state": {"running": {"startedAt": since}},
            }
        ],
    }


if __name__ == "__main__":
    main()
