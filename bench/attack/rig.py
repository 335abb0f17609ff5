"""A fresh install to attack: engines, an API server and a gateway of one worker, as processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import kube
import own_processes
from attack import by_clients, by_engines, peers
from attack.by_tokens import CONFIGS
from attack.target import Target

_ENGINES = str(Path(__file__).with_name("engines.py"))
_NETWORKING = "/apis/networking.volcano.sh/v1alpha1/namespaces/default"
_POOLS = "/apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools"


@dataclass(frozen=True)
class Subject:
    """What is attacked, and whose client the victim is."""

    name: str
    pid: int
    target: Target
    """Where the attacks go; until when, each attack says."""
    victim: kube.Cluster
    """Where the victim asks."""
    path: str = ""
    """What it gets there; without it, it asks for chat completions."""


@dataclass
class Rig:
    """The processes. Use it as a context: all of them end with it."""

    scratch: Path
    _engine_ports: list[int] = field(default_factory=list)
    """Of the good one, the hostile one, and the hostile one that speaks HTTP/2."""
    _subjects: dict[str, Subject] = field(default_factory=dict)
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

    def __getitem__(self, name: str) -> Subject:
        """ "gateway", "apiserver" or "control": an engine for the victim, and a sink for the attack."""
        return self._subjects[name]

    @contextlib.contextmanager
    def peer(self, name: str) -> Iterator[Subject]:
        """Another proxy before the same engines. Raises proxies.UnavailableError."""
        proxy = peers.PEERS[name]()
        version = proxy.install()
        try:
            port, pid = proxy.start([("127.0.0.1", port) for port in self._engine_ports], cache_aware=False)
            target = replace(self["gateway"].target, port=port)
            yield Subject(f"{name} {version}", pid, target, _plain(port))
        finally:
            proxy.stop()

    @property
    def kubeconfig(self) -> Path:
        return self.scratch / "state" / "kubeconfig"

    def _start(self) -> None:
        self._engine_ports = [*self._engines("good")[1], *self._engines("hostile")[1]]
        apiserver = self._stack.enter_context(own_processes.apiserver(self.scratch))
        users = [
            str(self.kubeconfig),
            *(str(self._token(*user)) for user in (("reader",), ("writer", "--admin"))),
        ]
        asyncio.run(self._declare(*self._engine_ports))
        gateway, found = self._stack.enter_context(own_processes.gateway(self.scratch))
        ports = (int(found[1]), int(found[3]), int(found[5]))
        identity = [str(self.kubeconfig.parent / "pki" / f"server.{part}") for part in ("crt", "key")]
        sink_pid, (sink, sink_tls) = self._engines("sink", *identity)
        to_sink = [str(self._elsewhere(Path(user), sink_tls)) for user in users]
        target, dummy = Target(*ports, *users), Target(sink, sink, sink, *to_sink)
        cluster, engine = kube.Cluster.load(self.kubeconfig), _plain(self._engine_ports[0])
        self._subjects = {
            "gateway": Subject("headgate", gateway.pid, target, _plain(ports[0])),
            "apiserver": Subject("headgate", apiserver.pid, target, cluster, f"{CONFIGS}/victim"),
            "control": Subject("control", sink_pid, dummy, engine),
        }

    def _engines(self, *arguments: str) -> tuple[int, list[int]]:
        """Starts some in a process; its pid and their ports."""
        started = own_processes.started(
            self.scratch, f"{arguments[0]}-engines", _ENGINES, *arguments, stdin=subprocess.PIPE
        )
        process = self._stack.enter_context(started)
        assert process.stdout is not None
        return process.pid, [int(port) for port in process.stdout.readline().split()]

    def _token(self, name: str, *flags: str) -> Path:
        """The kubeconfig of a new user."""
        kubeconfig = self.scratch / f"{name}.kubeconfig"
        state = ("--state", str(self.kubeconfig.parent), "--kubeconfig", str(kubeconfig))
        command = ("-m", "headgate", "apiserver", "token", "create", name, *flags, *state)
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        return kubeconfig

    def _elsewhere(self, kubeconfig: Path, port: int) -> Path:
        """The same for a server on another port."""
        moved = self.scratch / f"{kubeconfig.stem}.sink"
        server = f"https://127.0.0.1:{port}"
        moved.write_text(re.sub(r"server: \S+", f"server: {server}", kubeconfig.read_text()))
        return moved

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


def _plain(port: int) -> kube.Cluster:
    return kube.Cluster("127.0.0.1", port, None, "")


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
