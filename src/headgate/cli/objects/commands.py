"""`headgate apply`, `get`, `describe` and `delete`: the commands and their options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate.cli.objects.connecting import Server


def _words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from headgate.cli.objects.completing import complete_words

    return complete_words(context, parameter, incomplete)


def _namespaces(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from headgate.cli.objects.completing import complete_namespace

    return complete_namespace(context, parameter, incomplete)


def _need_a_kind(context: click.Context, _: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        command = context.command_path
        raise click.UsageError(f"missing KIND: for example, `{command} modelroutes`, or `{command} all`.")
    return words


def words(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.argument(
        "words",
        nargs=-1,
        metavar="KIND [NAME]... | KIND/NAME...",
        callback=_need_a_kind if required else None,
        shell_complete=_words,
    )


KIND_AND_NAMES = words(required=True)

namespace_option = click.option(
    "-n", "--namespace", help="Namespace. Default: the kubeconfig's.", shell_complete=_namespaces
)


def selectors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that select by labels and by fields."""
    labels = click.option("-l", "--selector", help="Label selector, such as app=chat,tier!=test.")
    fields = click.option("--field-selector", help="Field selector, such as status.phase=Running.")
    return labels(fields(command))


@click.command()
@options.files
@options.recursive
@namespace_option
@click.option("--dry-run", is_flag=True, help="Validate on the server without storing anything.")
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other managers own.")
@click.option("--field-manager", default="headgate", help="Name of the field manager.")
@options.output("text", "name", "yaml", "json", help="Output format.")
@options.server
def apply(server: Server, files: tuple[str, ...], recursive: bool, **given: Any) -> None:
    """Create or change objects from manifests.

    Applies all manifests, namespaces and definitions first, and shows errors of the server at their lines.
    Exits with 1 if the server rejected any manifest.

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


@click.command()
@KIND_AND_NAMES
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Show objects of all namespaces.")
@selectors
@click.option("-w", "--watch", is_flag=True, help="Watch for changes until Ctrl-C.")
@options.output("table", "wide", "yaml", "json", "name", help="Output format.")
@click.option("--show-labels", is_flag=True, help="Add a column with all labels.")
@click.option("--show-managed-fields", is_flag=True, help="With -o yaml or json: include managedFields.")
@click.option("--ignore-not-found", is_flag=True, help="Do not fail if an object does not exist.")
@options.server
def get(server: Server, words: tuple[str, ...], **given: Any) -> None:
    """List objects, or show some of them.

    KIND is any name that kubectl accepts: modelroutes, modelroute, mr, modelroutes.networking.volcano.sh,
    several names separated by commas, or a category such as all.

    \b
    Examples:
      headgate get modelroutes,modelservers
      headgate get modelroute/chat -o yaml
      headgate get pods -A -o wide -l app=sim-8b
    """
    from headgate.cli.objects import connecting, fetching, getting

    wanted = fetching.Wanted(words=words, **given)
    connecting.run(server, lambda client: getting.get(client, wanted))


@click.command()
@KIND_AND_NAMES
@namespace_option
@selectors
@options.output("text", "json", help="Output format; json prints a list of objects with their events.")
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


@click.command()
@words(required=False)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="FILE|DIRECTORY|-",
    help="Delete the objects of these manifests; repeatable. -: standard input.",
)
@options.recursive
@namespace_option
@selectors
@click.option("--all", "every", is_flag=True, help="Delete all objects of the kind in the namespace.")
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="background",
    help="Objects that it owns: deleted after it (background), before it (foreground), or kept (orphan).",
)
@click.option(
    "--grace-period", "grace_s", type=click.IntRange(0), help="Seconds that the object has to terminate."
)
@click.option("--wait/--no-wait", default=True, help="Wait until the objects are gone.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    help="Seconds to wait.",
)
@click.option("--dry-run", is_flag=True, help="Validate on the server without deleting anything.")
@click.option("--ignore-not-found", is_flag=True, help="Do not fail if an object does not exist.")
@options.output("text", "name", "json", help="Output format.")
@options.server
def delete(
    server: Server, words: tuple[str, ...], files: tuple[str, ...], recursive: bool, **given: Any
) -> None:
    """Delete objects without asking for confirmation.

    \b
    Examples:
      headgate delete modelroute chat
      headgate delete -f examples/quickstart
      headgate delete pods -l app=sim-8b --no-wait
    """
    from headgate.cli.manifests import ManifestErrors, load
    from headgate.cli.objects import connecting, removing

    if bool(words) == bool(files):
        raise click.UsageError("specify what to delete: either KIND NAME... or -f FILE")
    try:
        manifests = load(list(files), recursive=recursive) if files else []
    except ManifestErrors as error:
        raise click.ClickException(str(error)) from error
    wanted = removing.Wanted(words=words, manifests=manifests, **given)
    if not connecting.run(server, lambda client: removing.delete(client, wanted)):
        raise SystemExit(1)
