"""Where a model is served: on the machine of a state directory, or by another API server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate import cluster
from headgate.cli import machine_state
from headgate.cli.objects.connecting import Server

__all__ = ["Place", "of"]


@dataclass(frozen=True)
class Place:
    """The API server to apply to, and the state directory if it is that of a machine."""

    server: Server
    machine: Path | None
    """None for another API server, such as that of a cluster."""
    may_start: bool
    """Whether the machine may be started: nobody named an API server."""

    @property
    def gateway(self) -> str | None:
        """The inference API of the machine; None if it is not known."""
        if self.machine is None:
            return None
        try:
            return machine_state.gateway_urls(self.machine)[1]
        except (OSError, IndexError):
            return None


def of(server: Server) -> Place:
    """The place that the options of a command line select.

    Unlike other commands, this one never falls back to ~/.kube/config: it would start engines in a cluster
    that nobody named.
    """
    named = [server.kubeconfig] if server.kubeconfig is not None else []
    if not named and server.said_state is None:
        named = cluster.kubeconfigs_named()
    if not named:
        own = Server(server.state / "kubeconfig", server.context, server.said_state)
        return Place(own, server.state, may_start=True)
    folder = named[0].parent if len(named) == 1 else None
    is_machine = folder is not None and (folder / machine_state.GATEWAY_FILE).is_file()
    return Place(server, folder if is_machine else None, may_start=False)
