"""`headgate delete`: objects by name, by selector, or by the manifests that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.cli import options
from headgate.cli.objects.arguments import namespace_option, selectors, words

if TYPE_CHECKING:
    from headgate.cli.objects.connecting import Server


@click.command()
@words(required=False)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="FILE|DIRECTORY|-",
    help="Delete the objects of these manifests; repeat it for more. -: standard input.",
)
@options.recursive
@namespace_option
@selectors
@click.option("--all", "every", is_flag=True, help="All objects of the kind in the namespace.")
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="background",
    show_default=True,
    help="What becomes of what the object owns: deleted after it, before it, or left.",
)
@click.option(
    "--grace-period", "grace_s", type=click.IntRange(0), help="Seconds that the object may take to end."
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the objects are gone.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds to wait.",
)
@click.option("--dry-run", is_flag=True, help="Let the server check everything and delete nothing.")
@click.option("--ignore-not-found", is_flag=True, help="Objects that do not exist are no error.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "name", "json"]),
    default="text",
    show_default=True,
    help="What is printed of each object.",
)
@options.server
def delete(
    server: Server, words: tuple[str, ...], files: tuple[str, ...], recursive: bool, **given: Any
) -> None:
    """Delete objects, without asking back.

    \b
    Examples:
      headgate delete modelroute chat
      headgate delete -f examples/quickstart
      headgate delete pods -l app=sim-8b --no-wait
    """
    from headgate.cli.manifests import ManifestErrors, load
    from headgate.cli.objects import connecting, removing

    if bool(words) == bool(files):
        raise click.UsageError("say what to delete: either KIND NAME... or -f FILE")
    try:
        manifests = load(list(files), recursive=recursive) if files else []
    except ManifestErrors as error:
        raise click.ClickException(str(error)) from error
    wanted = removing.Wanted(words=words, manifests=manifests, **given)
    if not connecting.run(server, lambda client: removing.delete(client, wanted)):
        raise SystemExit(1)
