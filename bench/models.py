"""CPU time of the controller for many Models: from cold, after a restart, and at rest, on a real Kubernetes
control plane.

    python3 tools/control_plane run .venv/bin/python bench/models.py

No node takes the Pods, which stay pending: the figures are those of the objects.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import httpx2

import cluster_at_rest
import cpu
import kube
import own_processes

NAMESPACE = cluster_at_rest.NAMESPACE
MODELS = f"/apis/registry.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/models"
METRICS_PORT = 19091
WITHIN_S = 900.0
QUIET_S = 10.0


@click.command(help=__doc__)
@click.option("--models", default=200, show_default=True)
@click.option("--backends", default=5, show_default=True)
@click.option("--rest-s", default=60.0, show_default=True, help="Seconds to watch the controller at rest.")
def main(models: int, backends: int, rest_s: float) -> None:
    machine = cpu.machine()
    print(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}")
    print(f"{models} Models of {backends} backends")
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        with cluster_at_rest.control_plane(scratch) as kubeconfig:
            asyncio.run(_create(kubeconfig, models, backends))
            print(f"\n{'':24}{'CPU':>10}{'elapsed':>12}{'writes':>10}")
            for name in ("from cold", "after a restart"):
                _measure(scratch, kubeconfig, name, models, rest_s if name == "after a restart" else 0.0)


async def _create(kubeconfig: Path, models: int, backends: int) -> None:
    connection = await kube.Cluster.load(kubeconfig).connect()
    for number in range(models):
        await connection.send("POST", MODELS, _model(number, backends))
    connection.close()


def _model(number: int, backends: int) -> dict[str, Any]:
    return {
        "apiVersion": "registry.volcano.sh/v1alpha1",
        "kind": "Model",
        "metadata": {"name": f"m{number}", "namespace": NAMESPACE},
        "spec": {"backends": [_backend(index) for index in range(backends)]},
    }


def _backend(index: int) -> dict[str, Any]:
    config = {"max_model_len": 8192, "enable_prefix_caching": True}
    return {
        "name": f"b{index}",
        "type": "vLLM",
        "modelURI": "hf://org/model",
        "minReplicas": 1,
        "maxReplicas": 1,
        "workers": [{"type": "server", "config": config}],
    }


def _measure(scratch: Path, kubeconfig: Path, name: str, models: int, rest_s: float) -> None:
    command = ("-m", "headgate", "controller", "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE)
    flags = ("--metrics-port", str(METRICS_PORT))
    began = time.monotonic()
    with own_processes.started(
        scratch, f"controller-{name}", *command, *flags, stdout=subprocess.DEVNULL
    ) as controller:
        written = _processed(models, lambda: cpu.cpu_seconds(controller.pid))
        print(f"{name:24}{written.cpu_s:>8.1f} s{written.at - began:>10.1f} s{written.writes:>10.0f}")
        if rest_s:
            _quiet(controller.pid)
            before = cpu.cpu_seconds(controller.pid)
            time.sleep(rest_s)
            share = (cpu.cpu_seconds(controller.pid) - before) / rest_s
            memory = cpu.memory_kb(controller.pid) / 1000
            print(f"{'at rest':24}{share:>9.2%} of a core, {memory:.0f} MB")


class _Point:
    def __init__(self, cpu_s: float, writes: float) -> None:
        self.at = time.monotonic()
        self.cpu_s = cpu_s
        self.writes = writes


def _processed(models: int, cpu_s: Callable[[], float]) -> _Point:
    """When every Model was reconciled by this process, and nothing was written for a while after."""
    deadline = time.monotonic() + WITHIN_S
    last = _Point(0.0, -1.0)
    while time.monotonic() < deadline:
        page = _page()
        writes = _total(page, "headgate_controller_model_objects_applied_total")
        done = _total(page, "headgate_controller_models_reconciled_total")
        if writes != last.writes or done < models:
            last = _Point(cpu_s(), writes)
        elif time.monotonic() - last.at > QUIET_S:
            return last
        time.sleep(1)  # each look costs the controller time, too
    raise SystemExit(f"not all Models were reconciled within {WITHIN_S} s")


def _page() -> str:
    try:
        return httpx2.get(f"http://127.0.0.1:{METRICS_PORT}/metrics", trust_env=False, timeout=60).text
    except httpx2.HTTPError:
        return ""


def _total(page: str, name: str) -> float:
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(f"{name} "))


def _quiet(pid: int) -> None:
    """Until the process has hardly used any CPU for ten seconds."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        before = cpu.cpu_seconds(pid)
        time.sleep(QUIET_S)
        if cpu.cpu_seconds(pid) - before < 0.3:
            return


if __name__ == "__main__":
    main()
