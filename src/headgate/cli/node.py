"""`headgate node`: run the Pods and Deployments of an API server as local processes."""

import asyncio
from pathlib import Path

import click

from headgate import cluster
from headgate import node as room
from headgate.cli import options, process


@click.command()
@options.process
@click.option("--node-name", help="Name of the Node object. Default: the previous name, or the host's name.")
@click.option(
    "--drain-timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    help="Seconds that processes of Pods have to exit when the node stops.",
)
@options.log_level
def node(
    kubeconfig: Path | None, node_name: str | None, state: Path, drain_timeout: float, log_level: str
) -> None:
    """Run Pods as local processes and manage Deployments and ReplicaSets until SIGTERM; objects are kept.

    Logs and process records are in the directory `node` of --state, which only one node may use at a time.
    """
    config = room.NodeConfig(
        state=state / "node", kubeconfig=kubeconfig, node_name=node_name, drain_timeout_s=drain_timeout
    )

    async def main(stop: asyncio.Event) -> None:
        try:
            await room.run_node(config, stop=stop, on_ready=_tell)
        except (room.StateInUseError, cluster.ConfigurationError, cluster.ApiError) as error:
            raise click.ClickException(str(error)) from error

    process.run(main, log_level=log_level)


def _tell(ready: room.Ready) -> None:
    where = "on ports of 127.0.0.1" if ready.shares_address else "on loopback addresses of their own"
    process.say(f"Node {ready.name} ready: Pods of {ready.server} run here, {where}")
