"""The soak's processes: engines, an API server, a gateway with workers, and changes to its objects."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

import own_processes
from headgate import api, cluster

BENCH = Path(__file__).resolve().parent
MANAGER = "soak"
LIMITS = (
    "--endpoints-response-timeout-s",
    "3",
    "--endpoints-stream-response-timeout-s",
    "2",
    "--endpoints-stream-idle-timeout-s",
    "2",
)
"""Short compared with the run, so that timeouts of silent engines occur."""


@dataclass
class Rig:
    """The processes. A context manager: all of them end with it."""

    scratch: Path
    workers: int
    engines: int
    faults: float
    port: int = 0
    metrics_url: str = ""
    admin_url: str = ""
    ports: list[int] = field(default_factory=list)
    reloads: int = 0
    kills: list[float] = field(default_factory=list)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Rig:
        self.scratch.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def kubeconfig(self) -> Path:
        return self.scratch / "state" / "kubeconfig"

    @property
    def access_log(self) -> Path:
        return self.scratch / "access.log"

    def _start(self) -> None:
        faults = ["--engines", str(self.engines), "--faults", str(self.faults)]
        script = str(BENCH / "soak_engines.py")
        engines = self._stack.enter_context(
            own_processes.started(self.scratch, "engines", script, *faults, stdin=subprocess.PIPE)
        )
        assert engines.stdout is not None
        self.ports = [int(port) for port in engines.stdout.readline().split()]
        self._stack.enter_context(own_processes.apiserver(self.scratch))
        asyncio.run(self._declare())
        flags = ("--workers", str(self.workers), *LIMITS)
        _, found = self._stack.enter_context(own_processes.gateway(self.scratch, *flags))
        self.port, self.metrics_url, self.admin_url = int(found[1]), found[2], found[4]

    # -- the operator's view

    async def page(self, path: str) -> Any:
        """A page of the admin port."""
        return (await asyncio.to_thread(httpx2.get, f"{self.admin_url}{path}", timeout=30)).json()

    async def worker_pids(self) -> list[int]:
        """Pids of the serving workers, oldest first."""
        workers = (await self.page("/debug/config"))["workers"]
        return [each["pid"] for each in workers if each["state"] == "ready"]

    # -- disturbances

    async def kill_a_worker(self, keep: int) -> None:
        """Send SIGKILL to one of the workers, except `keep`."""
        pids = [pid for pid in await self.worker_pids() if pid != keep]
        if pids:
            os.kill(pids[len(self.kills) % len(pids)], signal.SIGKILL)
            self.kills.append(time.monotonic())

    async def reload_every(self, seconds: float) -> None:
        """Repeatedly change objects: weights, policies, and the set of Pods."""
        async with cluster.Client.from_kubeconfig(self.kubeconfig) as client:
            for turn in itertools.count():
                await asyncio.sleep(seconds)
                if turn % 3 == 0:
                    document = _route(weights=(50 + turn % 50, 1 + turn % 7))
                    await client.apply_manifest(document, field_manager=MANAGER)
                elif turn % 3 == 1:
                    document = _server("all", {"app": "soak"}, self.ports[0], attempts=1 + turn % 3)
                    await client.apply_manifest(document, field_manager=MANAGER)
                else:
                    is_ready = turn % 2 == 0
                    await _set_ready(client, turn // 6 % (self.engines - 1), is_ready)
                self.reloads += 1

    async def _declare(self) -> None:
        async with cluster.Client.from_kubeconfig(self.kubeconfig) as client:
            for number, port in enumerate(self.ports):
                await client.create_manifest(_pod(number, port))
                await _set_ready(client, number, True)
            await client.apply_manifest(
                _server("all", {"app": "soak"}, self.ports[0], attempts=2), field_manager=MANAGER
            )
            half = {"app": "soak", "half": "1"}
            await client.apply_manifest(
                _server("half", half, self.ports[0], attempts=2), field_manager=MANAGER
            )
            await client.apply_manifest(_route(weights=(80, 20)), field_manager=MANAGER)


async def _set_ready(client: cluster.Client, number: int, is_ready: bool) -> None:
    condition = {"type": "Ready", "status": str(is_ready)}
    status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [condition]}
    await client.patch_status(api.Pod, f"engine-{number}", "default", status)


def _pod(number: int, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"engine-{number}",
            "namespace": "default",
            "labels": {"app": "soak", "half": str(number % 2)},
            "annotations": {"headgate.dev/address": f"127.0.0.1:{port}"},
        },
        "spec": {"containers": [{"name": "engine", "image": "engine"}]},
    }


def _server(name: str, selector: dict[str, str], port: int, attempts: int) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": selector},
            "workloadPort": {"port": port},
            "trafficPolicy": {"retry": {"attempts": attempts, "retryInterval": "10ms"}},
        },
    }


def _route(weights: tuple[int, int]) -> dict[str, Any]:
    targets = [
        {"modelServerName": name, "weight": weight}
        for name, weight in zip(("all", "half"), weights, strict=True)
    ]
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "soak", "namespace": "default"},
        "spec": {"modelName": "soak", "rules": [{"name": "all", "targetModels": targets}]},
    }
