"""The state of an informer, its changes, and its subscribers. Synchronous and without I/O."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Generic, Protocol, TypeVar

from headgate import api

log = logging.getLogger(__name__)


class KubeObject(Protocol):
    """A top-level Kubernetes object, such as `api.Pod` or `api.ModelRoute`."""

    resource: ClassVar[api.Resource]

    @property
    def metadata(self) -> api.ObjectMeta: ...


K = TypeVar("K", bound=KubeObject)
"""The kind of a call or an informer."""


class ChangeKind(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change(Generic[K]):
    """One step of one object: `old` is None for ADDED, `new` is None for DELETED."""

    kind: ChangeKind
    old: K | None
    new: K | None

    @property
    def object(self) -> K:
        """The newest state: of a deleted object, its last."""
        obj = self.new if self.new is not None else self.old
        assert obj is not None
        return obj


Handler = Callable[[Change[K]], None]


class Store(Generic[K]):
    """Objects by key. One that was deleted and recreated is a DELETED and an ADDED, never a MODIFIED."""

    def __init__(self) -> None:
        self._objects: dict[api.ObjectKey, K] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: api.ObjectKey) -> K | None:
        return self._objects.get(key)

    def values(self) -> Iterator[K]:
        return iter(self._objects.values())

    def put(self, obj: K) -> list[Change[K]]:
        """Update an object; no change if this version of it is known."""
        key = obj.metadata.key
        old = self._objects.get(key)
        if old is None:
            self._objects[key] = obj
            return [Change(ChangeKind.ADDED, None, obj)]
        if old.metadata.uid != obj.metadata.uid:
            self._objects[key] = obj
            return [Change(ChangeKind.DELETED, old, None), Change(ChangeKind.ADDED, None, obj)]
        if old.metadata.resource_version == obj.metadata.resource_version:
            return []
        self._objects[key] = obj
        return [Change(ChangeKind.MODIFIED, old, obj)]

    def remove(self, key: api.ObjectKey, last: K | None = None) -> list[Change[K]]:
        """Remove an object; `last` is its final state if the server sent it."""
        old = self._objects.pop(key, None)
        return [] if old is None else [Change(ChangeKind.DELETED, last or old, None)]

    def replace(self, objects: Iterable[K], keep: Mapping[api.ObjectKey, object]) -> list[Change[K]]:
        """Apply a complete list: what is in neither `objects` nor `keep` was deleted unseen."""
        present = {obj.metadata.key: obj for obj in objects}
        gone = [key for key in self._objects if key not in present and key not in keep]
        changes = [change for key in gone for change in self.remove(key)]
        for obj in present.values():
            changes += self.put(obj)
        return changes


class Subscribers(Generic[K]):
    """The handlers of changes. An exception of a handler is logged and counted, and stops nothing."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._handlers: list[Handler[K]] = []
        self.failures = 0

    def add(self, handler: Handler[K], known: Iterable[K]) -> Callable[[], None]:
        """Call the handler with each known object first, then with every change.

        Returns a function that unsubscribes it.
        """
        for obj in known:
            self._call(handler, Change(ChangeKind.ADDED, None, obj))
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def notify(self, changes: Iterable[Change[K]]) -> None:
        for change in changes:
            for handler in tuple(self._handlers):
                self._call(handler, change)

    def _call(self, handler: Handler[K], change: Change[K]) -> None:
        try:
            handler(change)
        except Exception:
            self.failures += 1
            log.exception(
                "a handler failed on %s of %s %s", change.kind, self._kind, change.object.metadata.key
            )
