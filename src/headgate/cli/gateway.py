"""`headgate gateway`: one gateway process."""

from typing import TYPE_CHECKING, Any

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate.gateway import GatewaySettings

_PORT = click.IntRange(1, 65535)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address that clients connect to.")
@click.option("--port", default=8080, type=_PORT, show_default=True, help="Port that clients connect to.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address of the metrics page.")
@click.option("--metrics-port", default=9090, type=_PORT, show_default=True, help="Port of the metrics page.")
@click.option(
    "--admin-host", default="127.0.0.1", show_default=True, help="Address of health and debug pages."
)
@click.option(
    "--admin-port", default=8081, type=_PORT, show_default=True, help="Port of health and debug pages."
)
@options.kubeconfig
@options.namespace
@click.option(
    "--max-body-mb", default=32, type=click.IntRange(1, 1024), show_default=True, help="Largest request body."
)
@click.option(
    "--max-clients",
    default=10_000,
    type=click.IntRange(1, 1_000_000),
    show_default=True,
    help="Client connections at a time; fewer if the process may not open so many files.",
)
@click.option(
    "--max-clients-per-address",
    default=0,
    type=click.IntRange(0, 1_000_000),
    show_default=True,
    help="Connections of one client address (IPv6: one /64 network) at a time; 0 is no limit.",
)
@click.option(
    "--max-endpoint-connections",
    default=1024,
    type=click.IntRange(1, 65_000),
    show_default=True,
    help="Connections to one endpoint, and so requests that it has from this process at a time.",
)
@click.option(
    "--ejection-failures",
    default=5,
    type=click.IntRange(0, 1_000_000),
    show_default=True,
    help="Failures in a row by which an endpoint is left out of its pools for a while; 0 is never.",
)
@click.option(
    "--drain",
    "drain_s",
    default=30.0,
    show_default=True,
    help="Seconds that requests may run on after SIGTERM.",
)
@click.option(
    "--access-log",
    type=click.Choice(["text", "json", "off"]),
    default="text",
    show_default=True,
    help="Form of the line that is written to standard output for each request.",
)
@options.log_level
def gateway(log_level: str, max_body_mb: int, **given: Any) -> None:
    """Serve inference requests by the objects of an API server."""
    from headgate.gateway import GatewaySettings

    settings = GatewaySettings(max_body_bytes=max_body_mb * 1024 * 1024, **given)
    _run(settings, log_level)


def _run(settings: "GatewaySettings", log_level: str) -> None:
    import asyncio

    from headgate import cluster
    from headgate.cli import process
    from headgate.gateway import run_gateway

    def announce(_: object) -> None:
        click.echo(f"headgate gateway is ready on http://{settings.host}:{settings.port}", err=True)

    async def main(stop: asyncio.Event) -> None:
        try:
            await run_gateway(settings, stop, announce)
        except cluster.ConfigurationError as error:
            raise click.ClickException(str(error)) from error

    process.run(main, log_level=log_level)
