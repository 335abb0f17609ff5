"""`headgate apply`: manifests become objects by server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.cli import options
from headgate.cli.objects.arguments import namespace_option

if TYPE_CHECKING:
    from headgate.cli.objects.connecting import Server


@click.command()
@options.files
@options.recursive
@namespace_option
@click.option("--dry-run", is_flag=True, help="Let the server check everything and store nothing.")
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others manage.")
@click.option(
    "--field-manager", default="headgate", show_default=True, help="Name under which fields are managed."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "name", "yaml", "json"]),
    default="text",
    show_default=True,
    help="What is printed of each object.",
)
@options.server
def apply(server: Server, files: tuple[str, ...], recursive: bool, **given: Any) -> None:
    """Create or change objects from manifests.

    All manifests are tried; what the server refuses is shown at its line. Namespaces and definitions go
    first. Exits with 1 if anything was refused.

    Example: headgate apply -f examples/quickstart
    """
    from headgate.cli.manifests import ManifestErrors, load
    from headgate.cli.objects import connecting, sending

    try:
        manifests = load(list(files), recursive=recursive)
    except ManifestErrors as error:
        raise click.ClickException(str(error)) from error
    if not connecting.run(server, lambda client: sending.apply(client, manifests, sending.Manner(**given))):
        raise SystemExit(1)
