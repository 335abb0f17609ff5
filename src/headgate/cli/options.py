"""Options that several commands have, and mean the same by."""

from pathlib import Path

import click

kubeconfig = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="API server to work with. Default: the in-cluster account, $KUBECONFIG, ~/.kube/config.",
)
namespace = click.option("--namespace", help="Objects of this namespace only. Default: all.")
log_level = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is logged on standard error.",
)
