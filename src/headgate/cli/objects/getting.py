"""`headgate get`: print objects as they arrive."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import click
import msgspec

from headgate import cluster
from headgate.cli.objects import fetching, printing
from headgate.cli.objects.fetching import Fetch, Wanted, printer, say_nothing_found
from headgate.cli.objects.printing import Column, Object, Printer, Row, Table, TableMeta
from headgate.cli.objects.served import Asked, asked, discover


async def get(client: cluster.Client, wanted: Wanted) -> None:
    """Print everything; raises ClickException if a named object is missing, after the others."""
    targets = asked(wanted.words, await discover(client))
    if wanted.watch and (len(targets) != 1 or len(targets[0].names or ()) > 1):
        raise click.UsageError("--watch takes one kind, or one object")
    if wanted.selects and any(target.names for target in targets):
        raise click.UsageError("select objects by name or by selector, not both")
    fetch = Fetch(client, wanted)
    if wanted.watch:
        await watch(fetch, targets[0])
    elif wanted.is_table:
        await _print_tables(fetch, targets)
    else:
        await _print_objects(fetch, targets)
    if fetch.missing and not wanted.ignore_not_found:
        raise click.ClickException("\n".join(fetch.missing))


async def _print_tables(fetch: Fetch, targets: list[Asked]) -> None:
    """Print one block for each kind that has objects; with several kinds, names include the kind."""
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


# `headgate get --watch`: print the current objects, then every change, until interrupted.
#
# A watch that ends or is cut resumes from the last version seen. If the server no longer has the changes
# since then, everything is listed again and the differences are printed.
_SILENCE_S = 600.0
"""Bookmarks arrive more often, so a connection that is silent for this long is dead."""
_BACKOFF = cluster.Backoff(base_s=0.2, cap_s=5.0)
_TRANSIENT = frozenset({429, 500, 502, 503, 504})


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct, frozen=True):
    metadata: TableMeta


async def watch(fetch: Fetch, target: Asked) -> None:
    """Print the current objects and then each change, until cancelled."""
    shown = _Shown(fetch, target)
    await shown.begin()
    if fetch.missing:
        return
    failures, is_told, rng = 0, False, random.Random()  # noqa: S311
    while True:
        before = shown.version
        try:
            await shown.follow()
            is_told = False
        except cluster.Gone:
            shown.is_expired = True
            continue
        except cluster.ApiError as error:
            if not isinstance(error, cluster.Unreachable) and error.status_code not in _TRANSIENT:
                raise
            if not is_told:
                click.echo(f"lost the connection to the API server, retrying: {error.message}", err=True)
            is_told = True
        # Back off if a watch ended without an event, so that empty watches are not restarted in a tight loop.
        failures = 0 if shown.version != before else failures + 1
        await asyncio.sleep(_BACKOFF.delay_s(failures, rng) if failures else 0)


class _Shown:
    """Prints lists and events of one kind in one format, and tracks what was printed."""

    def __init__(self, fetch: Fetch, target: Asked) -> None:
        self.version = ""
        """Everything up to this version has been printed."""
        self.is_expired = False
        """Whether the server no longer has the changes after this version."""
        self._fetch = fetch
        self._target = target
        self._printer: Printer | None = None
        self._columns: list[Column] = []
        self._seen: dict[tuple[str, str], str] = {}
        name = target.names[0] if target.names else None
        self._path = fetch.path(Asked(target.served, None))
        if name is not None:
            self._path = fetch.client.path_of(target.served.resource, None, fetch.wanted.namespace)
        self._query = {"fieldSelector": f"metadata.name={name}"} if name else {}
        self._is_table = fetch.wanted.is_table
        self._accept = fetching.TABLE if self._is_table else "application/json"

    async def begin(self) -> None:
        """Print the current objects; missing named objects are recorded."""
        async for table in self._fetch.tables(self._target):
            self.version = self.version or table.metadata.resource_version
            if self._is_table:
                self._print(table)
        if not self._is_table:
            async for obj in self._fetch.objects(self._target):
                self._print_object(obj)

    async def follow(self) -> None:
        """Print every change until the server ends the watch; raises ApiError, including Gone."""
        if self.is_expired:
            await self._catch_up()
            self.is_expired = False
        query = self._fetch.query(
            watch="true", resourceVersion=self.version, allowWatchBookmarks="true", **self._query
        )
        client = self._fetch.client
        async with client.stream_lines(self._path, query, _SILENCE_S, accept=self._accept) as lines:
            async for line in lines:
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    raise cluster.ApiError.from_body(0, bytes(event.object), f"GET {self._path}")
                if event.type != "BOOKMARK":
                    self._tell(event)
                self.version = _version(event.object)

    async def _catch_up(self) -> None:
        """List again, print what is new or different, and report what was deleted."""
        present: set[tuple[str, str]] = set()
        version = ""
        async for page in self._fetch.pages(self._path, self._accept, **self._query):
            version = version or _version(page)
            if self._is_table:
                table = fetching.decoded_table(page)
                rows = table.rows or []
                present |= {_key(row.metadata) for row in rows}
                news = [row for row in rows if not self._has_seen(row.metadata)]
                self._print(Table(table.column_definitions, news))
            else:
                for obj in self._fetch.items(self._target, page):
                    present.add(_key(obj["metadata"]))
                    if not self._has_seen(obj["metadata"]):
                        self._print_object(obj)
        for key in sorted(self._seen.keys() - present):
            del self._seen[key]
            click.echo(f"{self._target.served.called(key[1])} was deleted in the meantime", err=True)
        self.version = version

    def _tell(self, event: _Event) -> None:
        if self._is_table:
            table = msgspec.json.decode(event.object, type=Table)
            self._print(table)
            metas = [row.metadata for row in table.rows or ()]
        else:
            obj = msgspec.json.decode(event.object)
            self._print_object(obj)
            metas = [obj["metadata"]]
        if event.type == "DELETED":
            for meta in metas:
                self._seen.pop(_key(meta), None)

    def _has_seen(self, meta: Object) -> bool:
        return self._seen.get(_key(meta)) == meta.get("resourceVersion")

    def _see(self, meta: Object) -> None:
        self._seen[_key(meta)] = meta.get("resourceVersion", "")

    def _print(self, table: Table) -> None:
        """Print rows; the headings precede the first one."""
        self._columns = table.column_definitions or self._columns
        rows: list[Row] = table.rows or []
        if not rows:
            return
        with_headings = self._printer is None
        if self._printer is None:
            self._printer = fetching.printer(self._fetch.wanted, self._target, self._columns, prefix=False)
        for line in self._printer.lines(rows, with_headings=with_headings):
            click.echo(line)
        for row in rows:
            self._see(row.metadata)

    def _print_object(self, obj: Object) -> None:
        self._see(obj["metadata"])
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


def _version(body: bytes | msgspec.Raw) -> str:
    return msgspec.json.decode(body, type=_Versioned).metadata.resource_version


def _key(meta: Object) -> tuple[str, str]:
    return meta.get("namespace", ""), meta.get("name", "")
