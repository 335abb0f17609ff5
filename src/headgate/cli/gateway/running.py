"""One gateway process, from its settings to its end."""

import asyncio

import click

from headgate import cluster
from headgate.cli import process
from headgate.gateway import GatewaySettings
from headgate.gateway.service import run_gateway


def run(settings: GatewaySettings) -> None:
    """Serves until a signal says to stop."""

    def announce(_: object) -> None:
        click.echo(f"headgate gateway is ready on http://{settings.host}:{settings.port}", err=True)

    async def main(stop: asyncio.Event) -> None:
        try:
            await run_gateway(settings, stop, announce)
        except cluster.ConfigurationError as error:
            raise click.ClickException(str(error)) from error

    process.run(main, log_level=settings.log_level)
