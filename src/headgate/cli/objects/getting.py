"""Printing what `headgate get` was asked for, as it comes."""

from __future__ import annotations

import click

from headgate import cluster
from headgate.cli.objects import printing, watching
from headgate.cli.objects.fetching import Fetch, Wanted, printer, say_nothing_found
from headgate.cli.objects.printing import Column, Row
from headgate.cli.objects.served import discover
from headgate.cli.objects.wording import Asked, asked


async def get(client: cluster.Client, wanted: Wanted) -> None:
    """Prints everything; raises ClickException if a named object is missing, after the others."""
    targets = asked(wanted.words, await discover(client))
    if wanted.watch and (len(targets) != 1 or len(targets[0].names or ()) > 1):
        raise click.UsageError("--watch takes one kind, or one object")
    if wanted.selects and any(target.names for target in targets):
        raise click.UsageError("objects are chosen by name or by selector, not both")
    fetch = Fetch(client, wanted)
    if wanted.watch:
        await watching.watch(fetch, targets[0])
    elif wanted.is_table:
        await _print_tables(fetch, targets)
    else:
        await _print_objects(fetch, targets)
    if fetch.missing and not wanted.ignore_not_found:
        raise click.ClickException("\n".join(fetch.missing))


async def _print_tables(fetch: Fetch, targets: list[Asked]) -> None:
    """A block for each kind that has objects; names tell the kind where there are several."""
    is_first = True
    for target in targets:
        rows: list[Row] = []
        columns: list[Column] = []
        async for table in fetch.tables(target):
            columns = columns or table.column_definitions or []
            rows += table.rows or []
        if not rows:
            continue
        if not is_first:
            click.echo()
        is_first = False
        block = printer(fetch.wanted, target, columns, prefix=len(targets) > 1)
        click.echo("\n".join(block.lines(rows, with_headings=True)))
    if is_first and not fetch.missing:
        say_nothing_found(fetch, targets)


async def _print_objects(fetch: Fetch, targets: list[Asked]) -> None:
    wanted = fetch.wanted
    if wanted.output == "name":
        for target in targets:
            async for obj in fetch.objects(target):
                click.echo(target.served.called(obj["metadata"]["name"]))
        return
    found = [obj for target in targets async for obj in fetch.objects(target)]
    if not wanted.show_managed_fields:
        found = [printing.without_managed_fields(obj) for obj in found]
    is_one = len(targets) == 1 and len(targets[0].names or ()) == 1
    if is_one and not found:
        return
    content = found[0] if is_one else printing.together(found)
    click.echo(printing.as_yaml(content) if wanted.output == "yaml" else printing.as_json(content), nl=False)
