"""The soak of failing engines: simulated engines, each a process, and a gateway in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

import health_faults
import own_processes
from headgate import api, cluster

MODEL, ADAPTER = "soak", "soak-style"
MANAGER = "soak"
_LISTENS = re.compile(r" on http://\S+:(\d+)")


class Engine:
    """A simulated engine, and its true health."""

    def __init__(self, scratch: Path, number: int) -> None:
        self.name = f"engine-{number}"
        self.port = 0
        self.fault: health_faults.Kind | None = None
        self.turned = asyncio.Event()
        """Set when its process ends or is stopped."""
        self.requests = 0
        """Requests in flight from the ideal picker."""
        self._scratch = scratch
        self._process: subprocess.Popen[str] | None = None
        self._starts = 0

    def is_well(self, model: str) -> bool:
        """Whether it can currently serve a request for a model."""
        return self.fault is None or (self.fault is health_faults.LACKS and model != ADAPTER)

    # -- the process

    async def start(self) -> None:
        """Start; returns when it listens."""
        process = self._process = self._started()
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        found = _LISTENS.search(line)
        if found is None:
            raise RuntimeError(f"{self.name} does not start: {line!r}")
        self.port = int(found[1])

    def _started(self) -> subprocess.Popen[str]:
        self._starts += 1
        command = ["-m", "headgate", "simulate", "engine", "--model", MODEL, "--port", str(self.port)]
        command += ["--host", "127.0.0.1", "--pod-name", self.name, "--lora-modules", f"{ADAPTER}=/{ADAPTER}"]
        with (self._scratch / f"{self.name}.{self._starts}.err").open("w") as errors:
            return subprocess.Popen(
                [sys.executable, *command],
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    # -- faults

    async def begin(self, kind: health_faults.Kind) -> None:
        """Fail from now on. The true state is updated just before."""
        self.fault = kind
        if kind in (health_faults.STOP, health_faults.CRASH):
            self.turned.set()
        if kind.status:
            error = {"kind": "error", "at_s": 0, "status": kind.status, "retry_after_s": kind.retry_after_s}
            await self._post("/admin/config", {"faults": [error]})
        elif kind is health_faults.STOP:
            self._signal(signal.SIGSTOP)
        elif kind is health_faults.CRASH:
            self.kill()
        elif kind is health_faults.SLOW:
            await self._post("/admin/config", {"slowdown": health_faults.SLOWER})
        elif kind is health_faults.LACKS:
            await self._post("/v1/unload_lora_adapter", {"lora_name": ADAPTER})

    async def end(self) -> None:
        """Recover. The true state is updated just after."""
        kind = self.fault
        if kind is health_faults.STOP:
            self._signal(signal.SIGCONT)
        elif kind is health_faults.CRASH:
            await self.start()
        elif kind is health_faults.LACKS:
            await self._post("/v1/load_lora_adapter", {"lora_name": ADAPTER, "lora_path": f"/{ADAPTER}"})
        else:
            await self._post("/admin/config", {"faults": [], "slowdown": 1})
        self.turned = asyncio.Event()
        self.fault = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    async def _post(self, path: str, body: object) -> None:
        async with httpx2.AsyncClient(timeout=30) as client:
            answer = await client.post(f"http://127.0.0.1:{self.port}{path}", json=body)
            answer.raise_for_status()


class Rig:
    """The processes. A context manager: all of them end with it."""

    def __init__(self, scratch: Path, engines: int) -> None:
        self.scratch = scratch
        self.engines = [Engine(scratch, number) for number in range(engines)]
        self.port = 0
        self._metrics_url = self.admin_url = ""
        self._stack = contextlib.ExitStack()

    async def __aenter__(self) -> Rig:
        try:
            for engine in self.engines:
                self._stack.callback(engine.kill)
            await asyncio.gather(*(engine.start() for engine in self.engines))
            self._stack.enter_context(own_processes.apiserver(self.scratch))
            await self._declare()
            _, found = self._stack.enter_context(own_processes.gateway(self.scratch))
            self.port, self._metrics_url, self.admin_url = int(found[1]), found[2], found[4]
        except BaseException:
            self._stack.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stack.close()

    async def counts(self, name: str, label: str) -> dict[str, int]:
        """The values of a gateway counter, by a label."""
        page = (await asyncio.to_thread(httpx2.get, self._metrics_url, timeout=30)).text
        lines = re.findall(rf'^{name}_total{{.*\b{label}="([^"]*)".*}} (\S+)$', page, re.MULTILINE)
        return {value: int(float(count)) for value, count in lines}

    async def _declare(self) -> None:
        async with cluster.Client.from_kubeconfig(self.scratch / "state" / "kubeconfig") as client:
            for engine in self.engines:
                await client.create_manifest(_pod(engine))
                condition = {"type": "Ready", "status": "True"}
                status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [condition]}
                await client.patch_status(api.Pod, engine.name, "default", status)
            for document in (_server(self.engines[0].port), _ROUTE):
                await client.apply_manifest(document, field_manager=MANAGER)


def _pod(engine: Engine) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": engine.name,
            "namespace": "default",
            "labels": {"app": "soak"},
            "annotations": {"headgate.dev/address": f"127.0.0.1:{engine.port}"},
        },
        "spec": {"containers": [{"name": "engine", "image": "engine"}]},
    }


def _server(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": "soak", "namespace": "default"},
        "spec": {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": {"app": "soak"}},
            "workloadPort": {"port": port},
        },
    }


_ROUTE = {
    "apiVersion": "networking.volcano.sh/v1alpha1",
    "kind": "ModelRoute",
    "metadata": {"name": "soak", "namespace": "default"},
    "spec": {
        "modelName": MODEL,
        "loraAdapters": [ADAPTER],
        "rules": [{"name": "all", "targetModels": [{"modelServerName": "soak"}]}],
    },
}
