"""`headgate describe`: one object for a person, with its conditions and what happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.cli import options
from headgate.cli.objects.arguments import KIND_AND_NAMES, namespace_option, selectors

if TYPE_CHECKING:
    from headgate.cli.objects.connecting import Server


@click.command()
@KIND_AND_NAMES
@namespace_option
@selectors
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text, or a list of the objects, each with its events.",
)
@options.server
def describe(
    server: Server,
    words: tuple[str, ...],
    namespace: str | None,
    selector: str | None,
    field_selector: str | None,
    output: str,
) -> None:
    """Show objects in detail: metadata, spec, conditions, events.

    \b
    Examples:
      headgate describe modelroute chat
      headgate describe modelroute/chat modelserver/chat
      headgate describe pods -l app=sim-8b
    """
    from headgate.cli.objects import connecting, describing, fetching

    wanted = fetching.Wanted(
        words=words,
        namespace=namespace,
        all_namespaces=False,
        selector=selector,
        field_selector=field_selector,
        watch=False,
        output=output,
        show_labels=False,
        show_managed_fields=False,
        ignore_not_found=False,
    )
    connecting.run(server, lambda client: describing.describe(client, wanted))
