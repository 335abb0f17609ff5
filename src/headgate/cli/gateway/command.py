"""`headgate gateway`: the command."""

from pathlib import Path
from typing import Any

import click

from headgate.cli.gateway import flags as gateway_flags


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of settings, each under the name of its flag with _ for -; flags go before it. "
    "A change of it is taken up while serving.",
)
@click.option("--check-config", is_flag=True, help="Judge flags and file, and serve nothing.")
@gateway_flags.of_settings
def gateway(config: Path | None, check_config: bool, flags: dict[str, Any]) -> None:
    """Serve inference requests by the objects of an API server.

    Example: headgate gateway --config examples/gateway.yaml --port 8080
    """
    from headgate.cli.gateway import configuration, running

    try:
        if check_config:
            configuration.load(config, flags)
            click.echo(f"{config or 'the configuration'} is valid")
        else:
            running.run(config, flags)
    except configuration.ConfigurationErrors as error:
        click.echo(error.shown(), err=True)
        raise SystemExit(1) from error
