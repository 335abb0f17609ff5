"""Delete objects one by one, then wait until they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from headgate import cluster
from headgate.cli.manifests import Manifest
from headgate.cli.objects import printing
from headgate.cli.objects.connecting import told
from headgate.cli.objects.served import Catalogue, Served, asked, discover

_PAGE_SIZE = 500
_FIRST_POLL_S, _LAST_POLL_S = 0.05, 1.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Arguments of the command line."""

    words: tuple[str, ...]
    manifests: list[Manifest]
    namespace: str | None
    selector: str | None
    field_selector: str | None
    every: bool
    cascade: str
    grace_s: int | None
    wait: bool
    timeout_s: float
    dry_run: bool
    ignore_not_found: bool
    output: str

    @property
    def selects(self) -> bool:
        return self.every or bool(self.selector or self.field_selector)


@dataclass(frozen=True)
class _Object:
    """One object to delete."""

    served: Served
    name: str
    namespace: str
    path: str
    source: str = ""
    """Location of its manifest."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _Item(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _List(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    items: list[_Item] | None = None


async def delete(client: cluster.Client, wanted: Wanted) -> bool:
    """Delete the selected objects and print the results; returns whether all succeeded."""
    catalogue = await discover(client)
    is_well = True
    going: list[tuple[_Object, str]] = []
    found = False
    async for obj in _objects(client, wanted, catalogue):
        found = True
        if isinstance(obj, str):
            click.echo(f"Error: {obj}", err=True)
            is_well = False
            continue
        try:
            going.append((obj, await _delete(client, obj, wanted)))
        except cluster.Unreachable:
            raise
        except cluster.ApiError as error:
            if isinstance(error, cluster.NotFound) and wanted.ignore_not_found:
                continue
            place = f"{obj.source}: " if obj.source else ""
            click.echo(f"Error: {place}{told(error)}", err=True)
            is_well = False
    if not found:
        click.echo("No resources found", err=True)
    if wanted.output == "json":
        click.echo(printing.as_json([_outcome(obj, uid) for obj, uid in going]), nl=False)
    if wanted.wait and not wanted.dry_run:
        await _until_gone(client, going, wanted.timeout_s)
    return is_well


async def _objects(
    client: cluster.Client, wanted: Wanted, catalogue: Catalogue
) -> AsyncIterator[_Object | str]:
    """Each object to delete, or the reason it cannot be deleted."""
    for manifest in reversed(wanted.manifests):  # delete objects that others refer to last
        served = catalogue.of(manifest.content["apiVersion"], manifest.kind)
        if served is None:
            if not wanted.ignore_not_found:
                kind = f"{manifest.kind} of {manifest.content['apiVersion']}"
                yield f"{manifest.source}: the server has no kind {kind}"
            continue
        meta = manifest.content["metadata"]
        yield _object(
            client, served, meta["name"], meta.get("namespace") or wanted.namespace, manifest.source
        )
    for target in asked(wanted.words, catalogue) if wanted.words else ():
        if target.names is not None and wanted.selects:
            raise click.UsageError("select objects by name or by selector, not both")
        if target.names is None and not wanted.selects:
            raise click.UsageError("specify names, --selector, or --all")
        names = target.names or [item async for item in _listed(client, target.served, wanted)]
        for name in names:
            yield _object(client, target.served, name, wanted.namespace)


def _object(
    client: cluster.Client, served: Served, name: str, namespace: str | None, source: str = ""
) -> _Object:
    path = client.path_of(served.resource, name, namespace)
    where = (namespace or client.namespace) if served.resource.namespaced else ""
    return _Object(served, name, where, path, source)


async def _listed(client: cluster.Client, served: Served, wanted: Wanted) -> AsyncIterator[str]:
    path = client.path_of(served.resource, None, wanted.namespace)
    token: str | None = None
    while token != "":
        query = {
            "labelSelector": wanted.selector,
            "fieldSelector": wanted.field_selector,
            "limit": str(_PAGE_SIZE),
            "continue": token,
        }
        page = msgspec.json.decode((await client.ask("GET", path, query=query)).body, type=_List)
        for item in page.items or ():
            yield item.metadata.name
        token = page.metadata.continue_token


async def _delete(client: cluster.Client, obj: _Object, wanted: Wanted) -> str:
    """Request the deletion, print it, and return the uid of the object being deleted ("" if already gone)."""
    options: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": wanted.cascade.capitalize(),
    }
    if wanted.grace_s is not None:
        options["gracePeriodSeconds"] = wanted.grace_s
    if wanted.dry_run:
        options["dryRun"] = ["All"]
    query = {"dryRun": "All" if wanted.dry_run else None}
    answer = await client.ask("DELETE", obj.path, options, query=query)
    if wanted.output == "name":
        click.echo(obj.served.called(obj.name))
    elif wanted.output == "text":
        suffix = " (server dry run)" if wanted.dry_run else ""
        click.echo(f'{obj.served.title} "{obj.name}" deleted{suffix}')
    return _uid(answer.body)


def _outcome(obj: _Object, uid: str) -> dict[str, str]:
    """A deleted or terminating object, for programs."""
    resource = obj.served.resource
    where = {"namespace": obj.namespace} if obj.namespace else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **where,
        "name": obj.name,
        "uid": uid,
    }


class _Details(msgspec.Struct, frozen=True):
    uid: str = ""


class _Answer(msgspec.Struct, frozen=True):
    """The object being deleted, or a Status for one that is gone."""

    kind: str = ""
    metadata: _Meta = _Meta()
    details: _Details | None = None


def _uid(body: bytes) -> str:
    answer = msgspec.json.decode(body, type=_Answer)
    return answer.metadata.uid or (answer.details.uid if answer.details else "")


async def _until_gone(client: cluster.Client, going: list[tuple[_Object, str]], timeout_s: float) -> None:
    """Wait until the objects are gone; a new object of the same name counts as gone."""
    try:
        async with asyncio.timeout(timeout_s):
            for obj, uid in going:
                delay_s = _FIRST_POLL_S
                while await _is_there(client, obj, uid):
                    await asyncio.sleep(delay_s)
                    delay_s = min(2 * delay_s, _LAST_POLL_S)
    except TimeoutError:
        raise click.ClickException(
            f'timed out waiting for {obj.served.title} "{obj.name}" to be deleted; deletion continues: '
            "finalizers or objects that it owns may block it (headgate get -o yaml shows them)"
        ) from None


async def _is_there(client: cluster.Client, obj: _Object, uid: str) -> bool:
    try:
        answer = await client.ask("GET", obj.path)
    except cluster.NotFound:
        return False
    return not uid or _uid(answer.body) == uid
