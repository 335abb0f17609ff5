"""A node's configuration, and its Node object: heartbeats and the address of its logs."""

from __future__ import annotations

import asyncio
import logging
import platform
import re
import socket
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from headgate import api, cluster
from headgate.api import marks
from headgate.kubeschema import timestamps


@dataclass(frozen=True)
class NodeConfig:
    """Configuration of `run_node`."""

    state: Path
    """Directory for logs and process records; only one node at a time may use it."""
    kubeconfig: Path | None = None
    """How to reach the API server; None uses kubectl's default."""
    node_name: str | None = None
    """None for the name stored in the state directory, or else the host's."""
    drain_timeout_s: float = 10.0
    """Maximum time for the processes of Pods to end when the node stops."""
    heartbeat_s: float = 10.0

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def processes(self) -> Path:
        return self.state / "processes"


@dataclass(frozen=True)
class Identity:
    """The node's identity in the API."""

    name: str
    host_ip: str = "127.0.0.1"


def node_name(config: NodeConfig) -> str:
    """The node's name, which must survive a change of host name: Pods are bound to it."""
    remembered = config.state / "node-name"
    if config.node_name is None and remembered.is_file():
        return remembered.read_text().strip()
    name = config.node_name or _host_name()
    remembered.write_text(f"{name}\n")
    return name


def _host_name() -> str:
    """The host name, converted to a valid object name: `My_Laptop` becomes `my-laptop`."""
    return re.sub(r"[^a-z0-9.]+", "-", socket.gethostname().lower()).strip("-.") or "localhost"


log = logging.getLogger(__name__)


class Registration:
    """Maintains the Node object; `run` sends heartbeats until cancelled."""

    def __init__(self, client: cluster.Client, identity: Identity, log_url: str, heartbeat_s: float) -> None:
        self._client = client
        self._identity = identity
        self._log_url = log_url
        self._heartbeat_s = heartbeat_s
        self._ready_since = timestamps.seconds(time.time())

    async def register(self) -> None:
        """Create or take over the Node object, and report Ready."""
        name = self._identity.name
        annotations = {marks.LOG_ENDPOINT: self._log_url}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": platform.system().lower()}
        try:
            meta = api.ObjectMeta(name=name, annotations=annotations, labels=labels)
            await self._client.create(api.Node(metadata=meta))
        except cluster.AlreadyExists:
            await self._client.patch(api.Node, name, None, {"metadata": {"annotations": annotations}})
        await self._beat(ready=True)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            try:
                await self._beat(ready=True)
            except cluster.NotFound:
                log.warning("the Node object %s was deleted; creating it again", self._identity.name)
                await self._register_again()
            except cluster.ApiError as error:
                log.warning("could not write the node's heartbeat: %s", error)

    async def leave(self) -> None:
        """Report that the node stops. Its object and its Pods stay."""
        try:
            await self._beat(ready=False)
        except cluster.ApiError as error:
            log.info("could not report that the node stops: %s", error)

    async def _register_again(self) -> None:
        try:
            await self.register()
        except cluster.ApiError as error:
            log.warning("could not create the Node object: %s", error)

    async def _beat(self, *, ready: bool) -> None:
        now = timestamps.seconds(time.time())
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "NodeReady" if ready else "NodeStopped",
            "message": "the node runs Pods as local processes" if ready else "the node was stopped",
            "lastHeartbeatTime": now,
            "lastTransitionTime": self._ready_since if ready else now,
        }
        status = {
            "conditions": [condition],
            "addresses": [
                {"type": "InternalIP", "address": self._identity.host_ip},
                {"type": "Hostname", "address": self._identity.name},
            ],
            "nodeInfo": {
                "kubeletVersion": f"headgate-{metadata.version('headgate')}",
                "operatingSystem": platform.system().lower(),
                "architecture": platform.machine(),
                "kernelVersion": platform.release(),
                "osImage": platform.platform(),
                "containerRuntimeVersion": "process://",
            },
        }
        await self._client.patch_status(api.Node, self._identity.name, None, status)
