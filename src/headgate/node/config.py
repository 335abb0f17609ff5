"""What a node is told when it starts."""

import re
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NodeConfig:
    """Everything that `run_node` needs besides the machine itself."""

    state: Path
    """Directory for logs and process records; one node at a time may use it."""
    kubeconfig: Path | None = None
    """How to reach the API server; None: as kubectl would find it."""
    node_name: str | None = None
    """None: the name that the state directory remembers, or else the host's."""
    drain_timeout_s: float = 10.0
    """How long the Pods' processes may take to end when the node stops."""
    heartbeat_s: float = 10.0

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def processes(self) -> Path:
        return self.state / "processes"


@dataclass(frozen=True)
class Identity:
    """Who this node is in the API."""

    name: str
    host_ip: str = "127.0.0.1"


def node_name(config: NodeConfig) -> str:
    """The node's name, which must survive a laptop's change of host name: Pods are bound to it."""
    remembered = config.state / "node-name"
    if config.node_name is None and remembered.is_file():
        return remembered.read_text().strip()
    name = config.node_name or _host_name()
    remembered.write_text(f"{name}\n")
    return name


def _host_name() -> str:
    """The host's name as far as an object may be called so: `My_Laptop` is `my-laptop`."""
    return re.sub(r"[^a-z0-9.]+", "-", socket.gethostname().lower()).strip("-.") or "localhost"
