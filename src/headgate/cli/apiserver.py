"""`headgate apiserver`: the embedded API server alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from headgate import apiserver as server
from headgate.cli import options, process


@click.command()
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".headgate"),
    show_default=True,
    help="Directory of the objects, the certificates and the kubeconfig.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="Port to listen on; 0: any.",
)
@options.log_level
def apiserver(state: Path, host: str, port: int, log_level: str) -> None:
    """Serve the Kubernetes API on this machine, its objects in one SQLite file."""

    async def main(stop: asyncio.Event) -> None:
        try:
            await server.serve(server.Config(state, host, port), stop=stop, on_ready=_tell)
        except server.StateInUseError as error:
            raise click.ClickException(str(error)) from error

    process.run(main, log_level=log_level)


def _tell(running: server.Running) -> None:
    click.echo(f"API server ready at {running.url}, kubeconfig {running.kubeconfig}")
