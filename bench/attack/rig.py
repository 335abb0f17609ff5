"""A fresh install to attack: engines, an API server and a gateway with one worker, as processes."""

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
from attack import by_clients, by_engines, by_tokens, manifests, peers
from attack.target import Target

_ENGINES = str(Path(__file__).with_name("engines.py"))


@dataclass(frozen=True)
class Subject:
    """The process under attack, and the service that the victim uses."""

    name: str
    pid: int
    target: Target
    """Where attacks are directed; each attack sets its end."""
    victim: kube.Cluster
    """Where the victim sends requests."""
    path: str = ""
    """The path that the victim gets there; without it, it requests chat completions."""


@dataclass
class Rig:
    """The processes. A context manager: all of them end with it."""

    scratch: Path
    _engine_ports: list[int] = field(default_factory=list)
    """Ports of the good engine, the hostile one, and the hostile HTTP/2 one."""
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
        """A subject by name. The control is an engine for the victim, and a sink for the attack."""
        return self._subjects[name]

    @contextlib.contextmanager
    def peer(self, name: str) -> Iterator[Subject]:
        """Another proxy in front of the same engines. Raises proxies.UnavailableError."""
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
        node = self._node()
        identity = [str(self.kubeconfig.parent / "pki" / f"server.{part}") for part in ("crt", "key")]
        sink_pid, (sink, sink_tls) = self._engines("sink", *identity)
        to_sink = [str(self._elsewhere(Path(user), sink_tls)) for user in users]
        target, dummy = Target(*ports, *users), Target(sink, sink, sink, *to_sink)
        cluster, engine = kube.Cluster.load(self.kubeconfig), _plain(self._engine_ports[0])
        self._subjects = {
            "gateway": Subject("headgate", gateway.pid, target, _plain(ports[0])),
            "apiserver": Subject("headgate", apiserver.pid, target, cluster, f"{manifests.CONFIGS}/victim"),
            "node": Subject("headgate", node.pid, target, cluster, by_tokens.LAST_LINES),
            "control": Subject("control", sink_pid, dummy, engine),
        }

    def _engines(self, *arguments: str) -> tuple[int, list[int]]:
        """Start engines in one process; returns its pid and their ports."""
        started = own_processes.started(
            self.scratch, f"{arguments[0]}-engines", _ENGINES, *arguments, stdin=subprocess.PIPE
        )
        process = self._stack.enter_context(started)
        assert process.stdout is not None
        return process.pid, [int(port) for port in process.stdout.readline().split()]

    def _node(self) -> subprocess.Popen[str]:
        """Run the Pod whose logs are read."""
        command = ("-m", "headgate", "node", "--kubeconfig", str(self.kubeconfig))
        state = ("--state", str(self.kubeconfig.parent), "--node-name", "node")
        node = self._stack.enter_context(own_processes.started(self.scratch, "node", *command, *state))
        assert node.stdout is not None
        node.stdout.readline()
        return node

    def _token(self, name: str, *flags: str) -> Path:
        """The kubeconfig of a new user."""
        kubeconfig = self.scratch / f"{name}.kubeconfig"
        state = ("--state", str(self.kubeconfig.parent), "--kubeconfig", str(kubeconfig))
        command = ("-m", "headgate", "apiserver", "token", "create", name, *flags, *state)
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        return kubeconfig

    def _elsewhere(self, kubeconfig: Path, port: int) -> Path:
        """The same kubeconfig for a server on another port."""
        moved = self.scratch / f"{kubeconfig.stem}.sink"
        server = f"https://127.0.0.1:{port}"
        moved.write_text(re.sub(r"server: \S+", f"server: {server}", kubeconfig.read_text()))
        return moved

    async def _declare(self, good: int, hostile: int, hostile_http2: int) -> None:
        connection = await kube.Cluster.load(self.kubeconfig).connect()
        for name, port in (("good", good), ("hostile", hostile), ("hostile-h2", hostile_http2)):
            await _create(connection, manifests.PODS, manifests.pod(name, port))
            body = json.dumps({"status": manifests.RUNNING}).encode()
            await connection.request("PATCH", f"{manifests.PODS}/{name}/status", body, manifests.MERGE)
        for name, port in (("good", good), ("hostile", hostile)):
            await _create(connection, manifests.SERVERS, manifests.server(name, port))
        routes = {"good": "good", by_clients.MODEL.decode(): "good", by_engines.MODEL: "hostile"}
        for model, server in routes.items():
            await _create(connection, manifests.ROUTES, manifests.route(model, server))
        pool = manifests.pool_of_http2("hostile-h2", hostile_http2, by_engines.MODEL_OF_HTTP2)
        await _create(connection, manifests.POOLS, pool)
        await _create(connection, manifests.CONFIGS, manifests.named("v1", "ConfigMap", "victim"))
        await _create(connection, manifests.PODS, by_tokens.talker())
        connection.close()


def _plain(port: int) -> kube.Cluster:
    return kube.Cluster("127.0.0.1", port, None, "")


async def _create(connection: kube.Connection, path: str, document: dict[str, Any]) -> None:
    answer = await connection.request("POST", path, json.dumps(document).encode())
    if answer.status != 201:
        raise RuntimeError(f"POST {path}: {answer.status} {answer.body[:300]!r}")
