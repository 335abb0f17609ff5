"""`headgate import`: the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli import options
from headgate.cli.objects.commands import namespace_option

if TYPE_CHECKING:
    from headgate.cli.importing.report import Report
    from headgate.cli.importing.sources import Import
    from headgate.cli.objects.connecting import Server


@click.command("import")
@click.option(
    "-f",
    "--filename",
    "named",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="FILE|DIRECTORY|-",
    help="Read these manifests instead of a cluster; repeatable. -: standard input.",
)
@click.argument("more", nargs=-1, type=click.Path(allow_dash=True), metavar="[FILE|DIRECTORY|-]...")
@options.recursive
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="Read all namespaces.")
@click.option(
    "--write",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Write the objects, as Headgate takes them, into this directory, for kubectl apply -f.",
)
@options.server
@options.output("text", "json", "yaml")
def import_(
    named: tuple[str, ...],
    more: tuple[str, ...],
    recursive: bool,
    namespace: str | None,
    all_namespaces: bool,
    directory: Path | None,
    server: Server,
    output: str,
) -> None:
    """Report how Headgate would serve existing objects of Kthena, GIE, llm-d or WVA.

    Reads a cluster or files, and changes nothing. Lists what is taken as it is, what is converted from other
    versions, what behaves differently and what is refused; then which model names would be served, by which
    pools and endpoints. Exits with 1 if something is not served, or differs in a way that changes service.

    Example: headgate import -A --write converted
    """
    from headgate.cli.importing import rendering, sources, writing
    from headgate.cli.objects import connecting

    files = (*named, *more)
    if namespace and all_namespaces:
        raise click.UsageError("use -n or -A, not both")
    if files and (server.kubeconfig or server.context or server.said_state):
        raise click.UsageError("-f reads files, not a cluster: omit --kubeconfig, --context and --state")
    if files:
        imported = sources.from_files(files, recursive, namespace, all_namespaces)
    else:
        imported = connecting.run(
            server, lambda client: sources.from_cluster(client, namespace, all_namespaces)
        )
    report = _report(imported)
    click.echo(rendering.render(report, output), nl=False)
    if directory is not None:
        written = writing.write(imported.taken.objects, directory)
        click.echo(
            f"wrote {len(written)} manifest{'' if len(written) == 1 else 's'} to {directory}", err=True
        )
    if not report.is_served:
        raise SystemExit(1)


def _report(imported: Import) -> Report:
    from headgate.cli.importing import serving
    from headgate.cli.importing.report import Report

    served = serving.serve(
        imported.objects,
        imported.workloads,
        knows_pods=imported.knows_pods,
        routed=imported.taken.routed,
    )
    return Report(
        source=imported.source.label,
        objects=tuple(imported.taken.reports),
        names=served.names,
        pools=served.pools,
        troubles=served.troubles,
        unread=tuple(imported.source.unread),
        absent_kinds=tuple(imported.source.absent_kinds),
        ignored=imported.ignored,
        knows_pods=imported.knows_pods,
    )
