"""The objects of a process without an API server, listed and watched as if there were one.

Informers cannot tell the difference, so whatever follows objects of a cluster follows these too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import msgspec

from headgate.api.stored_object import StoredObject
from headgate.cluster.client import PAGE_SIZE, ListMeta, Page
from headgate.cluster.errors import Gone, NotFound
from headgate.cluster.outage import Outage
from headgate.cluster.store import ChangeKind, K
from headgate.cluster.transport import Query

MAX_EVENTS = 4096
"""Remembered; a watch that is further behind has to list again."""
_NAME = "metadata.name="


class Source(Protocol):
    """Where an informer reads: a `Client`, or `LocalObjects`."""

    outage: Outage

    def pages(self, path: str, query: Query, size: int = PAGE_SIZE) -> AsyncGenerator[Page, None]: ...
    def stream_lines(
        self, path: str, query: Query, read_timeout_s: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...
    async def get(self, of: type[K], name: str, namespace: str | None = None) -> K: ...


class _Event(msgspec.Struct, frozen=True):
    version: int
    place: tuple[str, str, str]
    line: bytes


class _Wanted(msgspec.Struct, frozen=True):
    """Which objects a list or watch is about; empty texts are any."""

    collection: str
    namespace: str
    name: str

    @classmethod
    def of(cls, path: str, query: Query) -> _Wanted:
        before, is_namespaced, after = path.partition("/namespaces/")
        namespace, _, plural = after.partition("/")
        collection = f"{before}/{plural}" if is_namespaced else path
        return cls(collection, namespace, (query.get("fieldSelector") or "").removeprefix(_NAME))

    def has(self, place: tuple[str, str, str]) -> bool:
        collection, namespace, name = place
        return collection == self.collection and self.namespace in ("", namespace) and self.name in ("", name)


class LocalObjects:
    """All objects of this process. Lists wait until `replace` was called for the first time."""

    def __init__(self) -> None:
        self.outage = Outage("", "")
        self._objects: dict[tuple[str, str, str], tuple[StoredObject, bytes]] = {}
        """Each as it was given, and with its resource version."""
        self._events: deque[_Event] = deque()
        self._version = self._forgotten = 0
        self._known = asyncio.Event()
        self._changed = asyncio.Event()
        """Set, and replaced by another one, by every change."""

    def replace(self, objects: Iterable[StoredObject]) -> None:
        """These are all objects now. Objects with the same bytes as before have not changed."""
        present = {each.place: each for each in objects}
        for place in self._objects.keys() - present.keys():
            _, body = self._objects.pop(place)
            self._note(ChangeKind.DELETED, place, body)
        for place, each in present.items():
            before = self._objects.get(place)
            if before is None or before[0] != each:
                kind = ChangeKind.ADDED if before is None else ChangeKind.MODIFIED
                self._objects[place] = each, self._note(kind, place, each.body)
        self._known.set()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _note(self, kind: ChangeKind, place: tuple[str, str, str], body: bytes) -> bytes:
        """Record an event; returns the object with its resource version."""
        self._version += 1
        obj = msgspec.json.decode(body)
        obj["metadata"]["resourceVersion"] = str(self._version)
        body = msgspec.json.encode(obj)
        self._events.append(
            _Event(self._version, place, b'{"type":"%b","object":%b}' % (kind.encode(), body))
        )
        if len(self._events) > MAX_EVENTS:
            self._forgotten = self._events.popleft().version
        return body

    async def pages(self, path: str, query: Query, size: int = PAGE_SIZE) -> AsyncGenerator[Page, None]:
        """The objects of one kind, all in one page."""
        await self._known.wait()
        wanted = _Wanted.of(path, query)
        found = [msgspec.Raw(body) for place, (_, body) in self._objects.items() if wanted.has(place)]
        yield Page(ListMeta(str(self._version)), found)

    @asynccontextmanager
    async def stream_lines(
        self, path: str, query: Query, read_timeout_s: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """A watch, which never ends. Raises Gone if it begins too far back."""
        yield self._lines(_Wanted.of(path, query), int(query.get("resourceVersion") or 0))

    async def _lines(self, wanted: _Wanted, since: int) -> AsyncIterator[bytes]:
        while True:
            if since < self._forgotten:
                raise Gone(f"version {since} is forgotten", status_code=410, reason="Expired")
            changed = self._changed
            new = [each for each in self._events if each.version > since]
            since = self._version
            for each in new:
                if wanted.has(each.place):
                    yield each.line
            await changed.wait()

    async def get(self, of: type[K], name: str, namespace: str | None = None) -> K:
        """The object; raises NotFound."""
        found = self._objects.get((of.resource.path(), namespace or "", name))
        if found is None:
            raise NotFound(f'{of.resource.plural} "{name}" not found', status_code=404, reason="NotFound")
        return msgspec.json.decode(found[1], type=of)

    def statistics(self) -> dict[str, int]:
        return {"objects": len(self._objects), "version": self._version}
