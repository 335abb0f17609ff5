"""A fresh install to attack: engines, an API server and a gateway of one worker, as processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kube
import own_processes
from attack import by_clients, by_engines
from attack.by_tokens import CONFIGS
from attack.target import Target

_ENGINES = Path(__file__).with_name("engines.py")
_READY = r"is ready on \S+:(\d+); metrics on \S+:(\d+)\S*, admin on \S+:(\d+)"
_NETWORKING = "/apis/networking.volcano.sh/v1alpha1/namespaces/default"
_POOLS = "/apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools"


@dataclass
class Rig:
    """The processes. Use it as a context: all of them end with it."""

    scratch: Path
    gateway_pid: int = 0
    apiserver_pid: int = 0
    _ports: tuple[int, int, int] = (0, 0, 0)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Rig:
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
    def port(self) -> int:
        """Of the inference API."""
        return self._ports[0]

    def target(self, until: float) -> Target:
        """What an attacker is told that ends at `until` (monotonic seconds)."""
        return Target(*self._ports, str(self.kubeconfig), str(self.scratch / "reader.kubeconfig"), until)

    def _start(self) -> None:
        engines = self._spawn("engines", str(_ENGINES), stdin=subprocess.PIPE, preexec_fn=_least_priority)
        assert engines.stdout is not None
        ports = [int(port) for port in engines.stdout.readline().split()]
        state = str(self.kubeconfig.parent)
        server = self._spawn("apiserver", "-m", "headgate", "apiserver", "--state", state, "--port", "0")
        assert server.stdout is not None
        server.stdout.readline()
        self.apiserver_pid = server.pid
        for name, flags in (("reader", ()), ("writer", ("--admin",))):
            kubeconfig = str(self.scratch / f"{name}.kubeconfig")
            command = ["-m", "headgate", "apiserver", "token", "create", name, *flags, "--state", state]
            subprocess.run(
                [sys.executable, *command, "--kubeconfig", kubeconfig], check=True, capture_output=True
            )
        asyncio.run(self._declare(*ports))
        flags = [flag for name in ("", "metrics-", "admin-") for flag in (f"--{name}port", "0")]
        gateway = ["-m", "headgate", "gateway", "--kubeconfig", str(self.kubeconfig), *flags]
        with (self.scratch / "access.log").open("wb") as log:
            started = self._spawn("gateway", *gateway, "--logging-access-log", "json", stdout=log)
        self.gateway_pid = started.pid
        found = own_processes.found_in_errors(self.scratch, "gateway", _READY)
        self._ports = (int(found[1]), int(found[2]), int(found[3]))

    def _spawn(self, name: str, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
        return self._stack.enter_context(own_processes.started(self.scratch, name, *arguments, **streams))

    async def _declare(self, good: int, hostile: int, hostile_http2: int) -> None:
        connection = await kube.Cluster.load(self.kubeconfig).connect()
        for name, port in (("good", good), ("hostile", hostile), ("hostile-h2", hostile_http2)):
            await _create(connection, "/api/v1/namespaces/default/pods", _pod(name, port))
            status = {
                "phase": "Running",
                "podIP": "127.0.0.1",
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            path = f"/api/v1/namespaces/default/pods/{name}/status"
            body = json.dumps({"status": status}).encode()
            await connection.request("PATCH", path, body, "application/merge-patch+json")
        for name, port in (("good", good), ("hostile", hostile)):
            await _create(connection, f"{_NETWORKING}/modelservers", _server(name, port))
        routes = {"good": "good", by_clients.MODEL.decode(): "good", by_engines.MODEL: "hostile"}
        for model, server in routes.items():
            await _create(connection, f"{_NETWORKING}/modelroutes", _route(model, server))
        await _create(connection, _POOLS, _pool_of_http2(hostile_http2))
        await _create(connection, CONFIGS, _named("v1", "ConfigMap", "victim"))
        connection.close()


def _least_priority() -> None:
    os.nice(19)


async def _create(connection: kube.Connection, path: str, document: dict[str, Any]) -> None:
    answer = await connection.request("POST", path, json.dumps(document).encode())
    if answer.status != 201:
        raise RuntimeError(f"POST {path}: {answer.status} {answer.body[:300]!r}")


def _named(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def _pod(name: str, port: int) -> dict[str, Any]:
    pod = _named("v1", "Pod", name, spec={"containers": [{"name": "engine", "image": "engine"}]})
    pod["metadata"] |= {
        "labels": {"app": name},
        "annotations": {"headgate.dev/address": f"127.0.0.1:{port}"},
    }
    return pod


def _server(name: str, port: int) -> dict[str, Any]:
    spec = {
        "inferenceEngine": "vLLM",
        "workloadSelector": {"matchLabels": {"app": name}},
        "workloadPort": {"port": port},
    }
    return _named("networking.volcano.sh/v1alpha1", "ModelServer", name, spec=spec)


def _route(model: str, server: str) -> dict[str, Any]:
    rules = [{"name": "all", "targetModels": [{"modelServerName": server}]}]
    return _named(
        "networking.volcano.sh/v1alpha1", "ModelRoute", model, spec={"modelName": model, "rules": rules}
    )


def _pool_of_http2(port: int) -> dict[str, Any]:
    spec = {
        "selector": {"matchLabels": {"app": "hostile-h2"}},
        "targetPorts": [{"number": port}],
        "appProtocol": "kubernetes.io/h2c",
        "endpointPickerRef": {"name": "none", "port": {"number": 9002}},
    }
    pool = _named("inference.networking.k8s.io/v1", "InferencePool", "hostile-h2", spec=spec)
    pool["metadata"]["annotations"] = {"headgate.dev/models": by_engines.MODEL_OF_HTTP2}
    return pool
