"""`headgate up`: everything on one machine, from manifests to a model that answers."""

from pathlib import Path
from typing import Any

import click

_PORT = click.IntRange(1, 65535)


@click.command()
@click.argument("manifests", nargs=-1, metavar="[FILE|DIRECTORY|-]...")
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".headgate"),
    show_default=True,
    envvar="HEADGATE_STATE",
    help="Directory of the objects, keys and logs of this machine.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the inference API.")
@click.option("--port", default=8080, type=_PORT, show_default=True, help="Port of the inference API.")
@click.option(
    "--apiserver-port", default=6443, type=_PORT, show_default=True, help="Port of the Kubernetes API."
)
@click.option(
    "--metrics-port", default=9090, type=_PORT, show_default=True, help="Port of the gateway's metrics."
)
@click.option(
    "--admin-port", default=8081, type=_PORT, show_default=True, help="Port of the gateway's health page."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="Worker processes of the gateway. Default: 1, or what its file says.",
)
@click.option(
    "--gateway-config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of the gateway's settings; the flags of this command go before it.",
)
@click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that says how endpoints are picked: an EndpointPickerConfig, or Kthena's.",
)
@click.option(
    "--wait", "wait_s", default=120.0, show_default=True, help="Seconds until what is not ready is explained."
)
def up(
    manifests: tuple[str, ...], gateway_config: Path | None, scheduler_config: Path | None, **options: Any
) -> None:
    """Start Headgate on this machine and apply manifests to it.

    Starts an API server, a node that runs Pods as local processes, the controllers and a gateway; applies
    the manifests; waits until their models are ready. Ctrl-C stops all of it. The objects stay: a second
    start comes up with them, as you left them, and applies only manifests that changed.

    Example: headgate up examples/quickstart
    """
    import asyncio

    from headgate import cluster
    from headgate.cli import machine
    from headgate.cli.gateway import configuration
    from headgate.cli.manifests import ManifestErrors, load
    from headgate.cli.supervisor import StateInUse

    try:
        loaded = load(list(manifests)) if manifests else []
        said = {"scheduler_config": str(scheduler_config)} if scheduler_config is not None else {}
        settings = configuration.load(gateway_config, said)
        started = machine.Options(
            manifests=loaded,
            gateway_config=gateway_config,
            scheduler_config=scheduler_config,
            gateway_stop_s=settings.lameduck_s + settings.drain_s,
            **options,
        )
        asyncio.run(machine.run(started))
    except configuration.ConfigurationErrors as error:
        click.echo(error.shown(), err=True)
        raise SystemExit(1) from error
    except (ManifestErrors, StateInUse, machine.StartError, cluster.ApiError, OSError) as error:
        raise click.ClickException(str(error)) from error
