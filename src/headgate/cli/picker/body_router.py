"""`headgate body-router`: tells proxies the model of a request before they choose its route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headgate.cli import options
from headgate.cli.picker import go_flags

_PORT = click.IntRange(0, 65535)


@click.command(cls=go_flags.GoCommand)
@options.process
@click.option(
    "--namespace",
    metavar="NAMESPACE",
    help="Namespace of the ConfigMaps with base models (label inference.networking.k8s.io/bbr-managed=true). "
    "Default: all.",
)
@click.option("--field", default="model", help="Member of the request body that becomes a header.")
@click.option("--header", default="X-Gateway-Model-Name", help="The header.")
@click.option("--host", default="0.0.0.0", help="Address of all ports.")  # noqa: S104
@click.option("--grpc-port", "--grpcPort", type=_PORT, default=9004, help="Port of external processing.")
@click.option("--grpc-health-port", type=_PORT, default=9005, help="Port of the gRPC health service.")
@click.option("--metrics-port", type=_PORT, default=9090, help="Port of /metrics and /readyz.")
@go_flags.switch(
    "--secure-serving", default=True, help="Serve with TLS; self-signed unless there is a --cert-path."
)
@click.option(
    "--cert-path", default="", type=click.Path(file_okay=False), help="Directory with tls.crt and tls.key."
)
@click.option(
    "--body-mode",
    type=click.Choice(["auto", "full-duplex", "buffered"]),
    default="auto",
    help="How proxies that do not say so send bodies; auto: full-duplex.",
)
@options.page_token_file
@options.log_level
def body_router(kubeconfig: Path | None, state: Path, **given: Any) -> None:
    """Set X-Gateway-Model-Name from the body of each request, for routes of Envoy and other proxies.

    The filter stands before the choice of the route: HTTPRoutes can then match the header.

    Example: headgate body-router --secure-serving=false
    """
    import asyncio

    from headgate import cluster
    from headgate.cli import process
    from headgate.cli.picker.settings import listening as listening_of
    from headgate.picker.body_router import RouterSettings
    from headgate.picker.certificates import CertificateError
    from headgate.picker.router_service import run_router

    settings = RouterSettings(field=given["field"], header=given["header"], body_mode=given["body_mode"])
    listening = listening_of(given)

    def announce(port: int) -> None:
        process.say(f"headgate body-router is ready on port {port}", err=True)

    async def main(stop: asyncio.Event) -> None:
        await run_router(settings, listening, kubeconfig, given["namespace"], stop, announce)

    known = (cluster.ConfigurationError, CertificateError)
    process.run(main, log_level=given["log_level"], known=known)
