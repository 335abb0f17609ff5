"""`headgate get --watch`: what is there, then every change, until the person has seen enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from headgate import cluster
from headgate.cli.objects import getting, printing
from headgate.cli.objects.printing import Column, Object, Printer, Table
from headgate.cli.objects.wording import Asked

if TYPE_CHECKING:
    from headgate.cli.objects.getting import Fetch

_SILENCE_S = 3600.0


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


async def watch(fetch: Fetch, target: Asked) -> None:
    """Prints what is there and then each change; ends when the server ends the watch."""
    shown = _Shown(fetch, target)
    name = target.names[0] if target.names else None
    version = await shown.begin()
    if fetch.missing:
        return
    path = fetch.path(Asked(target.served, None))
    query = fetch.query(watch="true", resourceVersion=version)
    if name is not None:
        query["fieldSelector"] = f"metadata.name={name}"
        path = fetch.client.path_of(target.served.resource, None, fetch.wanted.namespace)
    accept = getting.TABLE if fetch.wanted.is_table else "application/json"
    async with fetch.client.stream_lines(path, query, _SILENCE_S, accept=accept) as lines:
        async for line in lines:
            event = msgspec.json.decode(line, type=_Event)
            if event.type == "ERROR":
                raise cluster.ApiError.from_body(0, bytes(event.object), f"GET {path}")
            if event.type != "BOOKMARK":
                shown.tell(event.object)


class _Shown:
    """Prints lists and events of one kind in one form."""

    def __init__(self, fetch: Fetch, target: Asked) -> None:
        self._fetch = fetch
        self._target = target
        self._printer: Printer | None = None
        self._columns: list[Column] = []

    async def begin(self) -> str:
        """Prints what is there; returns the version to go on from."""
        version = ""
        async for table in self._fetch.tables(self._target):
            version = version or table.metadata.resource_version
            if self._fetch.wanted.is_table:
                self._print(table)
        if not self._fetch.wanted.is_table:
            async for obj in self._fetch.objects(self._target):
                self._print_object(obj)
        return version

    def tell(self, raw: msgspec.Raw) -> None:
        if self._fetch.wanted.is_table:
            self._print(msgspec.json.decode(raw, type=Table))
        else:
            self._print_object(msgspec.json.decode(raw))

    def _print(self, table: Table) -> None:
        """Headings come once, with the first row."""
        self._columns = table.column_definitions or self._columns
        if not table.rows:
            return
        with_headings = self._printer is None
        if self._printer is None:
            self._printer = getting.printer(self._fetch.wanted, self._target, self._columns, prefix=False)
        for line in self._printer.lines(table.rows, with_headings=with_headings):
            click.echo(line)

    def _print_object(self, obj: Object) -> None:
        shown: Any = obj
        if not self._fetch.wanted.show_managed_fields:
            shown = printing.without_managed_fields(obj)
        match self._fetch.wanted.output:
            case "name":
                click.echo(self._target.served.called(obj["metadata"]["name"]))
            case "yaml":
                click.echo(f"---\n{printing.as_yaml(shown)}", nl=False)
            case _:
                click.echo(printing.as_json(shown), nl=False)
