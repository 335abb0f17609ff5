"""Costs of a cluster in which nothing happens, and the delay of one edit, on a real Kubernetes control plane.

    python3 tools/control_plane run .venv/bin/python bench/cluster_at_rest.py

Its Pods have addresses in the network namespace of this command, where one simulated engine listens on all of
them. A gateway and a controller run beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import cpu
import kube
import own_processes

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "control_plane"
NAMESPACE = "bench"
SERVERS = 20
AT_ONCE = 8
WITHIN_S = 60.0
MERGE = "application/merge-patch+json"
GROUP = "networking.volcano.sh/v1alpha1"
ROUTES = f"/apis/{GROUP}/namespaces/{NAMESPACE}/modelroutes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@click.command(help=__doc__)
@click.option("--pods", default=500, show_default=True)
@click.option("--routes", default=200, show_default=True)
@click.option("--rest-s", default=60.0, show_default=True, help="Seconds to watch all processes.")
@click.option("--edits", default=50, show_default=True)
def main(pods: int, routes: int, rest_s: float, edits: int) -> None:
    machine = cpu.machine()
    print(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}")
    print(f"{pods} Pods, {SERVERS} ModelServers, {routes} ModelRoutes; {edits} edits")
    with tempfile.TemporaryDirectory() as directory, control_plane(Path(directory)) as kubeconfig:
        asyncio.run(_measure(Path(directory), kubeconfig, pods, routes, rest_s, edits))


@contextlib.contextmanager
def control_plane(scratch: Path) -> Iterator[Path]:
    """A control plane with Headgate's definitions."""
    command = [sys.executable, TOOL, "up", scratch / "plane"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        kubeconfig = Path(process.stdout.readline().strip())
        found = subprocess.run([sys.executable, TOOL, "path"], capture_output=True, text=True, check=True)
        kubectl = [Path(found.stdout.strip()) / "kubectl", f"--kubeconfig={kubeconfig}"]
        for words in (
            ("apply", "--server-side", "-k", ROOT / "deploy" / "crds"),
            ("wait", "--for=condition=Established", "crd", "--all"),
            ("create", "namespace", NAMESPACE),
            ("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=60s"),
        ):
            subprocess.run([*kubectl, *words], check=True, stdout=subprocess.DEVNULL)
        try:
            yield kubeconfig
        finally:
            own_processes.end(process)


async def _measure(
    scratch: Path, kubeconfig: Path, pods: int, routes: int, rest_s: float, edits: int
) -> None:
    cluster = kube.Cluster.load(kubeconfig)
    await _create_objects(cluster, pods, routes)
    engine = ("-m", "headgate", "simulate", "engine", "--host", "0.0.0.0", "--port", "8000")
    command = ("-m", "headgate", "controller", "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE)
    with (
        own_processes.started(scratch, "engine", *engine, stdout=subprocess.DEVNULL),
        own_processes.started(scratch, "controller", *command, stdout=subprocess.DEVNULL) as controller,
        own_processes.gateway(scratch, "--namespace", NAMESPACE, kubeconfig=kubeconfig) as (gateway, ports),
    ):
        print(f"\n{'':24}{'from start to ready':>22}")
        print(f"{'gateway':24}{cpu.age_s(gateway.pid):>20.2f} s  (CPU {cpu.cpu_seconds(gateway.pid):.2f} s)")
        await _settled(cluster)
        processes = {"gateway": gateway.pid, "controller": controller.pid, **_of_control_plane(scratch)}
        print(f"\n{'at rest':24}{'memory':>12}{'CPU':>14}")
        for name, rest in (await _at_rest(processes, rest_s)).items():
            print(f"{name:24}{rest.memory_mb:>9.0f} MB{rest.share:>11.1%} of a core")
        delays = await _edits(cluster, int(ports[1]), edits)
        print(f"\n{'an edit acts after':24}{'median':>12}{'most':>14}")
        print(f"{'':24}{statistics.median(delays) * 1e3:>9.1f} ms{max(delays) * 1e3:>11.1f} ms")


# Objects


async def _create_objects(cluster: kube.Cluster, pods: int, routes: int) -> None:
    servers = f"/apis/{GROUP}/namespaces/{NAMESPACE}/modelservers"
    writes = [(servers, _server(number)) for number in range(SERVERS)]
    writes += [(ROUTES, _route(number)) for number in range(routes)]
    writes += [(PODS, _pod(number)) for number in range(pods)]
    queue = iter(writes)
    addresses = (f"10.244.{number // 200 + 100}.{number % 200 + 10}" for number in range(pods))

    async def write() -> None:
        connection = await cluster.connect()
        for path, manifest in queue:
            await connection.send("POST", path, manifest)
            if path == PODS:
                name = f"{path}/{manifest['metadata']['name']}/status"
                await connection.send("PATCH", name, _running(next(addresses)), MERGE)
        connection.close()

    await asyncio.gather(*(write() for _ in range(AT_ONCE)))


def _server(number: int) -> dict[str, Any]:
    spec = {
        "inferenceEngine": "vLLM",
        "workloadSelector": {"matchLabels": {"server": f"s{number}"}},
        "workloadPort": {"port": 8000},
    }
    return {
        "apiVersion": GROUP,
        "kind": "ModelServer",
        "metadata": {"name": f"s{number}"},
        "spec": spec,
    }


def _route(number: int) -> dict[str, Any]:
    rule = {"name": "all", "targetModels": [{"modelServerName": f"s{number % SERVERS}"}]}
    return {
        "apiVersion": GROUP,
        "kind": "ModelRoute",
        "metadata": {"name": f"r{number}"},
        "spec": {"modelName": f"model-{number}", "rules": [rule]},
    }


def _pod(number: int) -> dict[str, Any]:
    container = {
        "name": "engine",
        "image": "registry.example/vllm/vllm-openai:v0.11.0",
        "args": ["--model", "/models/llama-8b", "--port", "8000", "--max-num-seqs", "256"],
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"engine-{number}", "labels": {"server": f"s{number % SERVERS}"}},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


def _running(address: str) -> dict[str, Any]:
    conditions = [{"type": name, "status": "True"} for name in ("Initialized", "ContainersReady", "Ready")]
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
    return {"status": status}


# Measurements


async def _settled(cluster: kube.Cluster) -> None:
    """The controller has written the status of the last route."""
    connection = await cluster.connect()
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        items = json.loads((await connection.request("GET", ROUTES)).body)["items"]
        if all(each.get("status", {}).get("conditions") for each in items):
            break
        await asyncio.sleep(0.2)
    else:
        raise RuntimeError(f"not all routes had a status within {WITHIN_S:g} s")
    connection.close()
    await asyncio.sleep(5.0)


def _of_control_plane(scratch: Path) -> dict[str, int]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_text().split("\0")
            if Path(words[0]).name in ("kube-apiserver", "etcd") and str(scratch) in str(words):
                found[Path(words[0]).name] = int(path.parent.name)
    return found


@dataclass(frozen=True)
class Rest:
    """What a process and its descendants use while nothing happens."""

    memory_mb: float
    share: float
    """CPU seconds per second."""


async def _at_rest(processes: dict[str, int], rest_s: float) -> dict[str, Rest]:
    before = {name: cpu.cpu_seconds(pid) for name, pid in processes.items()}
    began = time.monotonic()
    await asyncio.sleep(rest_s)
    passed = time.monotonic() - began
    return {
        name: Rest(cpu.memory_kb(pid) / 1024, (cpu.cpu_seconds(pid) - before[name]) / passed)
        for name, pid in processes.items()
    }


async def _edits(cluster: kube.Cluster, port: int, edits: int) -> list[float]:
    """Seconds from the watch event of an edit, as another watcher gets it, until the gateway serves by it."""
    writer, watcher = await cluster.connect(), await cluster.connect()
    client = await kube.Cluster("127.0.0.1", port, None, "").connect()
    seen: dict[str, float] = {}
    rest = b""

    def on_events(data: bytes) -> None:
        nonlocal rest
        now = time.perf_counter()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            for adapter in json.loads(line)["object"]["spec"].get("loraAdapters") or ():
                seen.setdefault(adapter, now)

    watcher.watch(f"{ROUTES}?watch=true&fieldSelector=metadata.name=r0", on_events)
    delays = []
    for number in range(edits):
        adapter = f"adapter-{number}"
        await writer.send("PATCH", f"{ROUTES}/r0", {"spec": {"loraAdapters": [adapter]}}, MERGE)
        acted = 0.0
        while not acted or adapter not in seen:
            if not acted and (await client.request("GET", f"/v1/models/{adapter}")).status == 200:
                acted = time.perf_counter()
            await asyncio.sleep(0.001)
        delays.append(max(acted - seen[adapter], 0.0))
        await asyncio.sleep(0.2)
    for connection in (writer, watcher, client):
        connection.close()
    return delays


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
