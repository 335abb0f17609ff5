"""Watches over HTTP: one JSON event per line, until the client disconnects."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from headgate.apiserver import errors
from headgate.apiserver.calls import Call
from headgate.apiserver.handlers.forms import Encodings, Form
from headgate.apiserver.objects import Objects, in_version
from headgate.apiserver.registry import Served
from headgate.apiserver.selectors import Selector
from headgate.apiserver.snapshots import PART_BYTES, Scan
from headgate.apiserver.storage import Event, Stored
from headgate.apiserver.watch import Bookmark, Hub

MIN_TIMEOUT_S = 1800
"""A watch without a timeout lasts between this and twice as long, so that not all end together."""
MAX_TIMEOUT_S = 86_400
_MAX_BATCH_BYTES = 64 * 1024


@dataclass(frozen=True)
class WatchSpec:
    """The parameters of a watch."""

    served: Served
    namespace: str
    selector: Selector
    since: int
    initial: bool
    """Begin with an ADDED event for every existing object."""
    initial_end: bool
    """Send a bookmark after these (WatchList)."""
    bookmark_s: float | None
    timeout_s: int
    form: Form


def stream(objects: Objects, hub: Hub, encodings: Encodings, spec: WatchSpec, call: Call) -> Response:
    """The response; immediate rejections are HTTP errors, later ones are events of type ERROR."""
    try:
        hub.check(spec.served.resource, objects.store.told if spec.initial else spec.since)
    except errors.StatusError as error:
        if error.code != 410:
            raise
        # Clients expect an expired watch to succeed and then to report the error.
        call.watch_ended(error)
        return Response(_line("ERROR", msgspec.json.encode(error.to_dict())), media_type="application/json")
    call.watch()
    return StreamingResponse(_lines(objects, hub, encodings, spec, call), media_type="application/json")


async def _lines(
    objects: Objects, hub: Hub, encodings: Encodings, spec: WatchSpec, call: Call
) -> AsyncIterator[bytes]:
    encoder = _Encoder(spec, encodings)
    since = spec.since
    timeout_s = min(spec.timeout_s, MAX_TIMEOUT_S) or MIN_TIMEOUT_S * (1 + random.random())  # noqa: S311
    until = asyncio.get_running_loop().time() + timeout_s
    try:
        if spec.initial:
            since = objects.store.revision
            await objects.store.settled()
            async for chunk in _present(objects, hub, encoder, spec, since, call):
                yield chunk
        if spec.initial_end:
            yield encoder.bookmark(since, initial_end=True)
        news = hub.follow(
            spec.served.resource, since, until=until, bookmark_s=spec.bookmark_s, room=call.unread
        )
        async with contextlib.aclosing(news):
            async for each in news:
                if isinstance(each, Bookmark):
                    yield encoder.bookmark(each.revision)
                else:
                    await call.next_turn()
                    for chunk in _bounded(_seen(spec, event, encoder) for event in each):
                        yield chunk
    except errors.StatusError as error:
        call.watch_ended(error)
        yield _line("ERROR", msgspec.json.encode(error.to_dict()))


async def _present(
    objects: Objects, hub: Hub, encoder: _Encoder, spec: WatchSpec, revision: int, call: Call
) -> AsyncIterator[bytes]:
    """An ADDED event for every object at a revision; 410 if the log moves past it in the meantime."""
    scan = Scan(objects.store, hub, spec.served, spec.namespace, spec.selector, revision=revision)
    while not scan.done:
        taken = await call.unread.enter(PART_BYTES)
        try:
            await call.next_turn()
            if chunk := b"".join(encoder.event("ADDED", stored) for stored in scan.part()):
                yield chunk
        finally:
            call.unread.leave(taken)


def _bounded(lines: Iterable[bytes]) -> Iterable[bytes]:
    """Join lines to chunks of a bounded size."""
    chunk = bytearray()
    for line in lines:
        chunk += line
        if len(chunk) >= _MAX_BATCH_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def _seen(spec: WatchSpec, event: Event, encoder: _Encoder) -> bytes:
    """The event for this watcher: objects that begin or cease to match become ADDED or DELETED."""
    if spec.namespace and event.new.key.namespace != spec.namespace:
        return b""
    if not spec.selector:
        return encoder.event(event.type, event.new)
    was = spec.selector.matches(event.old)
    is_ = event.type != "DELETED" and spec.selector.matches(event.new)
    if is_:
        return encoder.event("MODIFIED" if was else "ADDED", event.new)
    if not was:
        return b""
    if event.type == "DELETED":
        return encoder.event("DELETED", event.new)
    assert event.old
    # It left the selection: the client gets the state that it knew, at the revision of the change.
    return encoder.event("DELETED", _last_known(event.old, event.revision))


@lru_cache(maxsize=4)  # shared by all watchers whose selection it left
def _last_known(old: Stored, revision: int) -> Stored:
    known = old.decode()
    known["metadata"]["resourceVersion"] = str(revision)
    return Stored(old.key, revision, msgspec.json.encode(known))


class _Encoder:
    """Encodes events as lines, in the requested format and version."""

    def __init__(self, spec: WatchSpec, encodings: Encodings) -> None:
        self._encodings = encodings
        self._served = spec.served
        self._form = spec.form
        self._first = True
        as_stored = spec.served.api_version == spec.served.storage_api_version
        self._as_stored = as_stored and spec.form.name == "Object"

    def event(self, type_: str, stored: Stored) -> bytes:
        if self._as_stored:
            return _line(type_, stored.body)
        # Only the first event has the columns of a Table.
        with_columns, self._first = self._first and self._form.name == "Table", False
        make = partial(self._encoded, stored, with_columns=with_columns)
        return _line(
            type_, self._encodings.get(self._served, self._form, stored, make, with_columns=with_columns)
        )

    def _encoded(self, stored: Stored, *, with_columns: bool) -> bytes:
        obj = in_version(stored.decode(), self._served)
        meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return msgspec.json.encode(self._form.one(self._served, obj, meta=meta, with_columns=with_columns))

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind, version = self._served.kind, self._served.api_version
        obj: dict[str, Any] = {"kind": kind, "apiVersion": version, "metadata": meta}
        if self._form.name != "Object":
            obj |= {"kind": self._form.name, "apiVersion": self._form.api_version}
        if self._form.name == "Table":  # of an object without anything else
            of_table = {"resourceVersion": str(revision)}
            obj = self._form.table(self._served, [{"metadata": meta}], of_table, with_columns=False)
        return _line("BOOKMARK", msgspec.json.encode(obj))


def _line(type_: str, obj: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), obj)
