"""`headgate up`: run everything on one machine, from manifests to a model that responds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli import images as images_file
from headgate.cli import options as shared
from headgate.cli.gateway import flags as gateway_flags

if TYPE_CHECKING:
    from headgate import node


@click.command(cls=gateway_flags.SettingsCommand)
@click.argument("manifests", nargs=-1, metavar="[FILE|DIRECTORY|-]...")
@shared.state
@gateway_flags.of_some_settings(*gateway_flags.OF_UP)
@shared.apiserver_port
@click.option(
    "--gateway-config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of the gateway's settings; flags of this command override it.",
)
@images_file.images
@click.option(
    "--prometheus",
    metavar="URL",
    default="",
    help="Prometheus server for metrics prometheus:QUERY of AutoscalingPolicies.",
)
@click.option(
    "--controller-metrics-port",
    type=click.IntRange(1, 65535),
    metavar="NUMBER",
    help="Serve the metrics of the controllers on this port of 127.0.0.1. Default: nowhere.",
)
@click.option("--wait", "wait_s", default=120.0, help="Seconds to wait before printing what is not ready.")
def up(
    manifests: tuple[str, ...],
    gateway_config: Path | None,
    images: "node.ImagePrograms | None",
    flags: dict[str, Any],
    **options: Any,
) -> None:
    """Start Headgate on this machine and apply manifests to it.

    Starts an API server, a node that runs Pods as local processes, the controllers and a gateway; applies
    the manifests; waits until their models are ready. Ctrl-C stops everything. The objects are kept: the
    next start finds them as you left them, and applies only manifests that changed.

    Example: headgate up examples/quickstart
    """
    import asyncio

    from headgate import cluster
    from headgate.cli import machine
    from headgate.cli.gateway import configuration
    from headgate.cli.manifests import ManifestErrors, load
    from headgate.cli.supervisor import NO_SPACE, StateInUse, StateUnusable, no_space

    try:
        loaded = load(list(manifests)) if manifests else []
        gateway = configuration.load_with_origins(gateway_config, flags)
        if gateway.settings.objects.are_given:
            raise click.ClickException(
                "objects.endpoints and objects.files take the place of the API server that `headgate up` "
                "starts: use `headgate gateway` for them"
            )
        started = machine.Options(
            manifests=loaded,
            images=Path(images.source) if images else None,
            gateway=gateway.settings,
            gateway_origins=gateway.origins,
            gateway_arguments=machine.gateway_arguments(
                gateway_config, flags, gateway.origins, gateway.settings.listen.host
            ),
            **options,
        )
        asyncio.run(machine.run(started))
    except configuration.ConfigurationErrors as error:
        click.echo(error.shown(), err=True)
        raise SystemExit(error.exit_code) from error
    except (
        ManifestErrors,
        StateInUse,
        StateUnusable,
        machine.StartError,
        cluster.ApiError,
        OSError,
    ) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise click.ClickException(no_space(options["state"])) from error
        raise click.ClickException(str(error)) from error
