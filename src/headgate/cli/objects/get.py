"""`headgate get`: objects as the server's tables, or whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.cli import options
from headgate.cli.objects.arguments import KIND_AND_NAMES, namespace_option, selectors

if TYPE_CHECKING:
    from headgate.cli.objects.connecting import Server


@click.command()
@KIND_AND_NAMES
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")
@selectors
@click.option("-w", "--watch", is_flag=True, help="Go on with every change, until Ctrl-C.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "yaml", "json", "name"]),
    default="table",
    show_default=True,
    help="How objects are printed.",
)
@click.option("--show-labels", is_flag=True, help="A column with all labels.")
@click.option("--show-managed-fields", is_flag=True, help="With -o yaml or json: who owns which field.")
@click.option("--ignore-not-found", is_flag=True, help="Objects that do not exist are no error.")
@options.server
def get(server: Server, words: tuple[str, ...], **given: Any) -> None:
    """List objects, or show some of them.

    A KIND is written as for kubectl: modelroutes, modelroute, mr, modelroutes.networking.volcano.sh, several
    with commas between, or a category such as all.

    \b
    Examples:
      headgate get modelroutes,modelservers
      headgate get modelroute/chat -o yaml
      headgate get pods -A -o wide -l app=sim-8b
    """
    from headgate.cli.objects import connecting, fetching, getting

    wanted = fetching.Wanted(words=words, **given)
    connecting.run(server, lambda client: getting.get(client, wanted))
