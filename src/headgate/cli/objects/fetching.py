"""Fetch the objects for `headgate get`, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

import click
import msgspec

from headgate import cluster
from headgate.cli.objects.printing import Column, Object, Printer, Table
from headgate.cli.objects.served import Asked

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PAGE_SIZE = 500


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Arguments of the command line."""

    words: tuple[str, ...]
    namespace: str | None
    all_namespaces: bool
    selector: str | None
    field_selector: str | None
    watch: bool
    output: str
    show_labels: bool
    show_managed_fields: bool
    ignore_not_found: bool

    @property
    def is_table(self) -> bool:
        return self.output in ("table", "wide")

    @property
    def selects(self) -> bool:
        return bool(self.selector or self.field_selector)


class Fetch:
    """Requests the wanted objects; records the missing ones."""

    def __init__(self, client: cluster.Client, wanted: Wanted) -> None:
        self.client = client
        self.wanted = wanted
        self.missing: list[str] = []

    def path(self, target: Asked, name: str | None = None) -> str:
        resource = target.served.resource
        if self.wanted.all_namespaces and name is None:
            return resource.path()
        return self.client.path_of(resource, name, self.wanted.namespace)

    def query(self, **more: str | None) -> dict[str, str | None]:
        return {
            "labelSelector": self.wanted.selector,
            "fieldSelector": self.wanted.field_selector,
            **more,
        }

    async def tables(self, target: Asked) -> AsyncIterator[Table]:
        """The objects of a target as Tables, of one page or one object each."""
        if target.names is None:
            async for page in self.pages(self.path(target), TABLE):
                yield decoded_table(page)
            return
        for name in target.names:
            if (body := await self._one(target, name, TABLE)) is not None:
                yield decoded_table(body)

    async def objects(self, target: Asked) -> AsyncIterator[Object]:
        """The complete objects of a target."""
        if target.names is None:
            async for page in self.pages(self.path(target), "application/json"):
                for item in self.items(target, page):
                    yield item
            return
        for name in target.names:
            if (body := await self._one(target, name, "application/json")) is not None:
                yield msgspec.json.decode(body)

    def items(self, target: Asked, page: bytes) -> Iterator[Object]:
        """The objects of a list page, with apiVersion and kind, which list items omit."""
        resource = target.served.resource
        for item in msgspec.json.decode(page).get("items") or ():
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}

    async def pages(self, path: str, accept: str, **more: str | None) -> AsyncIterator[bytes]:
        """The bodies of a list, in as many pages as it takes."""
        token: str | None = None
        while token != "":
            query = self.query(limit=str(PAGE_SIZE), **{"continue": token}) | more
            body = (await self.client.ask("GET", path, query=query, accept=accept)).body
            yield body
            token = msgspec.json.decode(body, type=Table).metadata.continue_token

    async def _one(self, target: Asked, name: str, accept: str) -> bytes | None:
        if self.wanted.all_namespaces and target.served.resource.namespaced:
            raise click.UsageError("a named object is in one namespace: omit -A, or use -n")
        try:
            return (await self.client.ask("GET", self.path(target, name), accept=accept)).body
        except cluster.NotFound as error:
            self.missing.append(f"from the server ({error.reason}): {error.message}")
            return None


def decoded_table(body: bytes) -> Table:
    return msgspec.json.decode(body, type=Table)


def printer(wanted: Wanted, target: Asked, columns: list[Column], *, prefix: bool) -> Printer:
    return Printer(
        columns,
        wide=wanted.output == "wide",
        with_namespace=wanted.all_namespaces and target.served.resource.namespaced,
        with_labels=wanted.show_labels,
        prefix=target.served.title if prefix else "",
    )


def say_nothing_found(fetch: Fetch, targets: Iterable[Asked]) -> None:
    wanted = fetch.wanted
    is_namespaced = any(target.served.resource.namespaced for target in targets)
    if wanted.all_namespaces or not is_namespaced:
        click.echo("No resources found", err=True)
    else:
        where = wanted.namespace or fetch.client.namespace
        click.echo(f"No resources found in {where} namespace.", err=True)
