"""`headgate gateway`: the command."""

from pathlib import Path
from typing import Any

import click

from headgate.cli import options
from headgate.cli.gateway import flags as gateway_flags

_KUBECONFIG = "kubernetes_kubeconfig"
"""The setting that --state gives."""


@click.command(cls=gateway_flags.GatewayCommand)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="YAML file of settings, in the sections shown below. Changes are applied while serving.",
)
@click.option("--check-config", is_flag=True, help="Check all settings and exit.")
@click.option(
    "--show-settings",
    is_flag=False,
    flag_value="table",
    type=click.Choice(["table", "json", "yaml"]),
    help="Print every setting and where its value comes from, and exit. yaml prints a file of those that are "
    "set.",
)
@options.state
@gateway_flags.of_settings
def gateway(
    config: Path | None, state: Path, check_config: bool, show_settings: str | None, flags: dict[str, Any]
) -> None:
    """Serve inference requests, as the objects of an API server describe.

    Each setting can be given as a flag, as an environment variable (HEADGATE_LISTEN_PORT for --listen-port),
    and in the file of --config; the first of these counts.

    Example: headgate gateway --config examples/gateway.yaml --port 8080
    """
    from headgate.cli.gateway import configuration, running, showing
    from headgate.cli.objects.connecting import Server

    said = options.said_state(click.get_current_context())
    try:
        if said is not None:
            flags.setdefault(_KUBECONFIG, str(said / "kubeconfig"))
        if show_settings is not None:
            click.echo(showing.show(show_settings, configuration.load_with_origins(config, flags)))
        elif check_config:
            configuration.load(config, flags)
            click.echo(f"{config or 'the configuration'} is valid")
        else:
            own = Server(None).own
            if own is not None and configuration.load(config, flags).kubernetes.kubeconfig is None:
                flags[_KUBECONFIG] = str(own)
            running.run(config, flags)
    except configuration.ConfigurationErrors as error:
        click.echo(error.shown(), err=True)
        raise SystemExit(1) from error
