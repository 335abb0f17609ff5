"""`headgate describe`: print an object as text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import click
import msgspec

from headgate import api, cluster
from headgate.cli.objects import fetching, printing
from headgate.cli.objects.printing import Column, Object, Printer, Row
from headgate.cli.objects.served import asked, discover

_MAX_EVENTS = 20
"""The latest ones, of at most so many as one page of a list has: a server lists them in no useful order."""
_HEAD = 14
"""Width of the names in the first lines."""
_LONGEST_NOTE = 200
_SECRETS = ("data", "stringData")


async def describe(client: cluster.Client, wanted: fetching.Wanted) -> None:
    """Print each object; raises ClickException if a named one is missing, after the others."""
    fetch = fetching.Fetch(client, wanted)
    targets = asked(wanted.words, await discover(client))
    if wanted.selects and any(target.names for target in targets):
        raise click.UsageError("select objects by name or by selector, not both")
    objects = (obj for target in targets async for obj in fetch.objects(target))
    if wanted.output == "json":
        found = [await _whole(client, obj) async for obj in objects]
        click.echo(printing.as_json(found), nl=False)
        count = len(found)
    else:
        count = await _as_text(client, objects)
    if fetch.missing:
        raise click.ClickException("\n".join(fetch.missing))
    if not count:
        fetching.say_nothing_found(fetch, targets)


async def _as_text(client: cluster.Client, objects: AsyncIterator[Object]) -> int:
    """Print the objects; returns how many there are."""
    count = 0
    async for obj in objects:
        if count:
            click.echo("\n")
        count += 1
        events = await _events(client, obj)
        click.echo("\n".join([*lines(obj), "", *events]))
    return count


async def _whole(client: cluster.Client, obj: Object) -> Object:
    """An object with its events, for programs; the contents of Secrets are masked, `get` shows them."""
    shown = printing.without_managed_fields(obj)
    if obj["kind"] == "Secret":
        shown = {name: _hidden(part) if name in _SECRETS else part for name, part in shown.items()}
    answer = await _ask_events(client, obj, "application/json")
    events = sorted(msgspec.json.decode(answer.body).get("items") or [], key=_last_seen)[-_MAX_EVENTS:]
    return {"object": shown, "events": [printing.without_managed_fields(event) for event in events]}


def lines(obj: Object) -> Iterator[str]:
    """Everything except the events."""
    meta = obj["metadata"]
    yield _headed("Name", [meta.get("name", "")])
    if meta.get("namespace"):
        yield _headed("Namespace", [meta["namespace"]])
    yield _headed("Kind", [f"{obj['kind']}, {obj['apiVersion']}"])
    yield _headed("Created", [meta.get("creationTimestamp", "")])
    if meta.get("deletionTimestamp"):
        yield _headed("Deleted", [f"{meta['deletionTimestamp']}; held by {_held_by(meta)}"])
    yield _headed("Labels", [f"{key}={value}" for key, value in (meta.get("labels") or {}).items()])
    yield _headed("Annotations", [_note(*note) for note in (meta.get("annotations") or {}).items()])
    if owners := meta.get("ownerReferences"):
        yield _headed("Owned by", [f"{owner['kind']}/{owner['name']}" for owner in owners])
    for name, part in obj.items():
        if name == "status" and isinstance(part, dict):
            yield from _status(part)
        elif name not in ("apiVersion", "kind", "metadata"):
            yield from _section(name, _hidden(part) if obj["kind"] == "Secret" else part)


def _held_by(meta: Object) -> str:
    return ", ".join(meta.get("finalizers") or []) or "nothing"


def _headed(name: str, values: list[str]) -> str:
    shown = [printing.visible(value) for value in values] or ["<none>"]
    return f"{name + ':':<{_HEAD}}" + f"\n{'':<{_HEAD}}".join(shown)


def _note(key: str, value: str) -> str:
    if len(value) > _LONGEST_NOTE:
        return f"{key}: ({len(value)} characters)"
    return f"{key}: {value.strip()}"


def _hidden(part: Any) -> Any:
    """Mask the contents of a Secret."""
    if not isinstance(part, dict):
        return part
    return {key: f"({len(str(value))} characters)" for key, value in part.items()}


def _section(name: str, part: Any) -> list[str]:
    if part in ({}, [], None):
        return []
    title = f"{name[0].upper()}{name[1:]}:"
    if isinstance(part, dict | list):
        return ["", title, *(f"  {line}" for line in printing.as_yaml(part).splitlines())]
    return ["", f"{title} {printing.visible(str(part))}"]


def _status(status: Object) -> Iterator[str]:
    """Conditions as a table, the rest as it is."""
    conditions = status.get("conditions")
    rest = {name: value for name, value in status.items() if name != "conditions"}
    yield from _section("status", rest)
    if not isinstance(conditions, list) or not conditions:
        return
    fields = ("type", "status", "lastTransitionTime", "reason", "message")
    headings = [Column(name) for name in ("Type", "Status", "Since", "Reason", "Message")]
    table = Printer(headings, wide=False, with_namespace=False, with_labels=False)
    rows = [Row([condition.get(field) for field in fields]) for condition in conditions]
    yield from ["", "Conditions:", *(f"  {line}" for line in table.lines(rows, with_headings=True))]


async def _ask_events(client: cluster.Client, obj: Object, accept: str) -> cluster.Answer:
    meta = obj["metadata"]
    path = client.path_of(api.Event.resource, None, meta.get("namespace") or "default")
    query = {"fieldSelector": f"involvedObject.uid={meta.get('uid', '')}", "limit": str(fetching.PAGE_SIZE)}
    if accept == fetching.TABLE:
        query["includeObject"] = "Object"  # its times
    return await client.ask("GET", path, query=query, accept=accept)


async def _events(client: cluster.Client, obj: Object) -> list[str]:
    """Recent events of the object; the server formats their ages."""
    try:
        answer = await _ask_events(client, obj, fetching.TABLE)
    except cluster.ApiError as error:
        return [f"Events:       not available: {error.message}"]
    table = fetching.decoded_table(answer.body)
    if not table.rows:
        return ["Events:       <none>"]
    columns = [
        column if column.name != "Object" else Column(column.name, priority=1)
        for column in table.column_definitions or []
    ]
    shown = Printer(columns, wide=False, with_namespace=False, with_labels=False)
    latest = sorted(table.rows, key=lambda row: _last_seen(row.object or {}))[-_MAX_EVENTS:]
    return ["Events:", *(f"  {line}" for line in shown.lines(latest, with_headings=True))]


def _last_seen(event: Object) -> str:
    """When an Event was recorded last, in UTC, so that texts are in the order of times."""
    series, metadata = event.get("series") or {}, event.get("metadata") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        metadata.get("creationTimestamp"),
    )
    return next((str(time) for time in times if time), "")
