"""The view of the store that admission uses to check references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.api import ObjectKey, admission
from headgate.apiserver.registry import Registry, Served
from headgate.apiserver.storage import Event, Key, Store, Stored

_INDEXED_GROUPS = frozenset(group for group, _ in admission.INDEXED)


class StoreView:
    """An `admission.View` of the store. Used on writes only; each query is a lookup."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._index = admission.Index()

    among = ""
    """The store has all objects."""

    def follow(self) -> None:
        """Index the stored objects, and all later changes."""
        for group, kind in sorted(admission.INDEXED):
            if (served := self._served(group, kind)) is not None:
                for stored in self._store.select(served.resource):
                    self._index.put(stored.decode())
        self._store.listen(self._on_event)

    def get(self, group: str, kind: str, key: ObjectKey) -> dict[str, Any] | None:
        stored = self.stored(group, kind, key)
        return None if stored is None else stored.decode()

    def stored(self, group: str, kind: str, key: ObjectKey) -> Stored | None:
        """An object as stored."""
        served = self._served(group, kind)
        if served is None:
            return None
        return self._store.get(Key(served.resource, key.namespace if served.namespaced else "", key.name))

    def serves(self, group: str, kind: str) -> bool:
        return self._served(group, kind) is not None

    def filed(self, entry: admission.IndexKey) -> Sequence[admission.Filed]:
        return self._index.find(entry)

    def statistics(self) -> dict[str, int]:
        return self._index.statistics()

    def _served(self, group: str, kind: str) -> Served | None:
        return next((each for each in self._registry if (each.group, each.kind) == (group, kind)), None)

    def _on_event(self, event: Event) -> None:
        resource, namespace, name = event.new.key
        group = resource.partition(".")[2]
        if group not in _INDEXED_GROUPS:
            return
        obj = event.new.decode()
        if event.type == "DELETED":
            self._index.remove(group, str(obj["kind"]), ObjectKey(namespace, name))
        else:
            self._index.put(obj)
