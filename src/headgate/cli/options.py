"""Options that several commands have, and mean the same by."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Manifests, by -f or as plain words: `-f a.yaml -f b.yaml` and `-f *.yaml` both work."""

    @functools.wraps(command)
    def with_files(named: tuple[str, ...], more: tuple[str, ...], **given: Any) -> Any:
        if not named and not more:
            raise click.UsageError("no manifests: name files, directories, or - with -f")
        return command(files=(*named, *more), **given)

    path = click.Path(allow_dash=True)
    option = click.option(
        "-f",
        "--filename",
        "named",
        multiple=True,
        type=path,
        metavar="FILE|DIRECTORY|-",
        help="Manifests, YAML or JSON, of one or more documents; repeat it for more. -: standard input.",
    )
    return option(click.argument("more", nargs=-1, type=path, metavar="[FILE|DIRECTORY|-]...")(with_files))


recursive = click.option("-R", "--recursive", is_flag=True, help="Search the directories of -f deeply.")


def server(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which API server to talk to, as one argument `server`."""

    @functools.wraps(command)
    def with_server(kubeconfig: Path | None, context: str | None, **given: Any) -> Any:
        from headgate.cli.objects.connecting import Server

        return command(server=Server(kubeconfig, context), **given)

    which = click.option("--context", help="Context of the kubeconfig. Default: its current one.")
    path = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="API server to talk to. Default: $KUBECONFIG, .headgate/kubeconfig of `headgate up`, the "
        "in-cluster account, ~/.kube/config.",
    )
    return path(which(with_server))
