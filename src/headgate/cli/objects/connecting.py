"""Select the API server that a command talks to, and explain connection errors."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from headgate import cluster
from headgate.cli import machine_state, process

T = TypeVar("T")


@dataclass(frozen=True)
class Server:
    """The server options of the command line, and the kubeconfigs they select."""

    kubeconfig: Path | None
    context: str | None = None
    said_state: Path | None = None
    """--state, if given on the command line."""

    @property
    def files(self) -> list[Path]:
        """The kubeconfigs to use; none for the in-cluster account or ~/.kube/config."""
        if self.kubeconfig is not None:
            return [self.kubeconfig]
        if self.said_state is not None:
            return [self.said_state / "kubeconfig"]
        if named := cluster.kubeconfigs_named():
            return named
        own = self.state / "kubeconfig"
        return [own] if own.exists() else []

    @property
    def state(self) -> Path:
        return self.said_state or machine_state.usual()

    @property
    def own(self) -> Path | None:
        """The one file to use; None for $KUBECONFIG, the in-cluster account or ~/.kube/config."""
        if self.kubeconfig is None and self.said_state is None and cluster.kubeconfigs_named():
            return None
        return next(iter(self.files), None)

    def connect(self) -> cluster.Client:
        """Return a client; raises ClickException that lists the places searched."""
        try:
            return cluster.Client.from_kubeconfig(self.files, self.context)
        except cluster.ConfigurationError as error:
            raise click.ClickException(f"{error}\n{self._looked()}") from error

    def unreachable(self, error: cluster.Unreachable) -> str:
        """Why the server did not respond, and what to do."""
        used = " and ".join(str(file) for file in self.files)
        named = f"{used} names" if used else "the in-cluster account or ~/.kube/config names"
        return (
            f"no response from the API server that {named}: {error.message}\n"
            "Is it running? `headgate up` starts one on this machine; --kubeconfig names another one."
        )

    def _looked(self) -> str:
        if self.kubeconfig is not None:
            return "That is from --kubeconfig."
        if self.said_state is not None:
            return f"That is from --state. `headgate up --state {self.said_state}` starts a server there."
        if cluster.kubeconfigs_named():
            return f"That is from $KUBECONFIG ({os.environ['KUBECONFIG']})."
        return (
            f"Tried --kubeconfig, $KUBECONFIG, {self.state / 'kubeconfig'}, the in-cluster account and "
            "~/.kube/config.\n"
            "Start a server with `headgate up`, or name a kubeconfig with --kubeconfig."
        )


def run(server: Server, main: Callable[[cluster.Client], Awaitable[T]]) -> T:
    """Run one command with a client; API errors become a message and exit code 1."""

    async def with_client() -> T:
        async with server.connect() as client:
            return await main(client)

    with explained(server):
        return process.run_once(with_client)


@contextmanager
def explained(server: Server) -> Iterator[None]:
    """Turn API errors into ClickException with a message for people."""
    try:
        yield
    except cluster.Unreachable as error:
        raise click.ClickException(server.unreachable(error)) from error
    except cluster.ApiError as error:
        raise click.ClickException(told(error)) from error


def told(error: cluster.ApiError) -> str:
    """The server's error message, with a fix where one is known."""
    prefix = f"from the server ({error.reason}): " if error.reason else "from the server: "
    return f"{prefix}{error.message}{_REMEDIES.get(error.status_code, '')}"


_REMEDIES = {
    401: "\nThe credentials of the kubeconfig are invalid or have expired; `headgate up` writes new ones.",
    403: "\nThe user of the kubeconfig may not do this; use another one with --kubeconfig or --context.",
}
