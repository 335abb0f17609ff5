"""`headgate node`: run the Pods and Deployments of an API server as local processes."""

import asyncio
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import click

from headgate import cluster
from headgate import node as room
from headgate.cli import images as images_file
from headgate.cli import options, process

_FILE: click.ParamType[Path] = click.Path(exists=True, dir_okay=False, path_type=Path)


class _PodRange(click.ParamType["ipaddress.IPv4Network"]):
    name = "cidr"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> ipaddress.IPv4Network:
        """At least 16 addresses, as the first and the last ones are not given to Pods."""
        try:
            network = ipaddress.IPv4Network(value)
        except ValueError as error:
            self.fail(f"{value!r} is no IPv4 range: {error}", param, ctx)
        if network.prefixlen > 28:
            self.fail(f"{value!r} is too small: /28 is the smallest range", param, ctx)
        return network


def _labels(given: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for each in given:
        key, sign, value = each.partition("=")
        if not key or not sign:
            raise click.BadParameter(f"{each!r} is not KEY=VALUE", param_hint="--label")
        yield key, value


def _taints(given: tuple[str, ...]) -> list[room.Taint]:
    try:
        return [room.Taint.parse(each) for each in given]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--taint") from error


@click.command()
@options.process
@click.option("--node-name", help="Name of the Node object. Default: the previous name, or the host's name.")
@click.option(
    "--drain-timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    help="Seconds that processes of Pods have to exit when the node stops.",
)
@click.option(
    "--pod-cidr",
    type=_PodRange(),
    metavar="CIDR",
    help="Range of Pod addresses, all of them this machine's. Default: 127.64.0.0/16, which Services of a "
    "cluster refuse.",
)
@click.option(
    "--node-ip",
    metavar="ADDRESS",
    default="",
    help="Where the API server reaches this machine. Default: the address that reaches the server.",
)
@click.option(
    "--controllers/--no-controllers",
    default=None,
    help="Whether to manage Deployments, ReplicaSets and LeaderWorkerSets, and to schedule Pods. Default: "
    "only beside the embedded API server, as a cluster does that itself.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the Node. Repeatable.")
@click.option(
    "--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT", help="Taint of a new Node. Repeatable."
)
@images_file.images
@click.option(
    "--kubelet-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port of the node's API, by which the API server gets logs; 0 for any. Default: 10250, or any if it "
    "is taken.",
)
@click.option(
    "--tls-cert-file", type=_FILE, help="Certificate of the node's API, in PEM. Default: self-signed."
)
@click.option("--tls-private-key-file", type=_FILE, help="Key of --tls-cert-file, in PEM.")
@click.option(
    "--client-ca-file",
    type=_FILE,
    help="Authorities, in PEM, whose client certificates the node's API accepts. Default: those that the API "
    "server publishes.",
)
@options.log_level
def node(
    kubeconfig: Path | None,
    node_name: str | None,
    state: Path,
    drain_timeout: float,
    pod_cidr: ipaddress.IPv4Network | None,
    node_ip: str,
    controllers: bool | None,
    labels: tuple[str, ...],
    taints: tuple[str, ...],
    images: room.ImagePrograms | None,
    kubelet_port: int | None,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    log_level: str,
) -> None:
    """Run Pods as local processes until SIGTERM; objects are kept.

    Beside the embedded API server, it also manages Deployments, ReplicaSets and LeaderWorkerSets. In a
    cluster, it runs the Pods that the scheduler assigns to it, and serves the API of a kubelet.

    Logs and process records are in the directory `node` of --state, which only one node may use at a time.
    """
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file belong together: give both")
    config = room.NodeConfig(
        state=state / "node",
        kubeconfig=kubeconfig,
        node_name=node_name,
        drain_timeout_s=drain_timeout,
        pod_cidr=pod_cidr,
        node_ip=node_ip,
        controllers=controllers,
        labels=dict(_labels(labels)),
        taints=_taints(taints),
        images=images or room.ImagePrograms(),
        kubelet_port=kubelet_port,
        tls=room.TlsFiles(tls_cert_file, tls_private_key_file, client_ca_file),
    )

    async def main(stop: asyncio.Event) -> None:
        await room.run_node(config, stop=stop, on_ready=_tell)

    known = (room.StateInUseError, cluster.ConfigurationError, cluster.ApiError)
    process.run(main, log_level=log_level, known=known)


def _tell(ready: room.Ready) -> None:
    where = "on ports of 127.0.0.1" if ready.shares_address else "on loopback addresses of their own"
    if ready.pod_cidr:
        where = f"on addresses of {ready.pod_cidr}"
    told = "" if ready.mounts else "; without mounts: volumes are reached at other paths"
    process.say(f"Node {ready.name} ready: Pods of {ready.server} run here, {where}{told}")
