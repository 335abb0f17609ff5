"""Lookup of other objects for the rules: by name, or by the index entries of models, targets and labels.

Nothing here scans all objects: every lookup uses an index, and results are limited to a few.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from headgate.api.admission import index_keys
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.index_keys import IndexKey
from headgate.api.meta import ObjectKey

__all__ = ["MANY", "NOBODY", "Filed", "Gathered", "Index", "View", "is_before", "key_of", "others_than"]

Object = dict[str, Any]

MANY = 16
"""Limit of a lookup, oldest first; a warning names only the first few anyway."""


class Filed(NamedTuple):
    """An indexed object; sorts the oldest first, then by namespace and name."""

    created: str
    namespace: str
    name: str
    group: str
    kind: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class View(Protocol):
    """The other objects as rules see them. All methods are fast, however many objects there are."""

    @property
    def among(self) -> str:
        """The scope of the lookup, to follow "there is no X": "" for all objects."""
        ...

    def get(self, group: str, kind: str, key: ObjectKey) -> Object | None:
        """One object."""
        ...

    def serves(self, group: str, kind: str) -> bool:
        """Whether objects of the kind can exist at all; if not, their absence means nothing."""
        ...

    def filed(self, entry: IndexKey) -> Sequence[Filed]:
        """The oldest objects under an index entry, at most MANY."""
        ...


class Index:
    """Indexes objects by their entries; fed with every change, or with a set of manifests."""

    def __init__(self) -> None:
        self._filed: dict[IndexKey, list[Filed]] = {}
        self._entries: dict[tuple[str, str, ObjectKey], tuple[Filed, list[IndexKey]]] = {}

    def put(self, obj: Object) -> None:
        """Index an object, replacing the one with the same kind and name."""
        group, kind, key = _identity(obj)
        self.remove(group, kind, key)
        found = list(dict.fromkeys(index_keys.of(group, kind, obj)))
        if not found:
            return
        created = FieldCursor(obj).at("metadata.creationTimestamp").text or ""
        filed = Filed(created, *key, group, kind)
        self._entries[group, kind, key] = (filed, found)
        for entry in found:
            bisect.insort(self._filed.setdefault(entry, []), filed)

    def remove(self, group: str, kind: str, key: ObjectKey) -> None:
        if (group, kind, key) not in self._entries:
            return
        filed, found = self._entries.pop((group, kind, key))
        for entry in found:
            under = self._filed[entry]
            del under[bisect.bisect_left(under, filed)]
            if not under:
                del self._filed[entry]

    def find(self, entry: IndexKey) -> Sequence[Filed]:
        return self._filed.get(entry, ())[:MANY]

    def statistics(self) -> dict[str, int]:
        return {"objects": len(self._entries), "entries": len(self._filed)}

    def validate(self) -> None:
        """Check that both directions agree; for tests."""
        forward = {(entry, filed) for filed, found in self._entries.values() for entry in found}
        assert forward == {(entry, each) for entry, under in self._filed.items() for each in under}
        assert all(under and under == sorted(under) for under in self._filed.values())


class Gathered:
    """A set of manifests, and behind them, if given, the objects of a cluster."""

    def __init__(self, objects: Iterable[Object], behind: View | None = None) -> None:
        self._objects: dict[tuple[str, str, ObjectKey], Object] = {}
        self._index = Index()
        self._behind = behind
        for obj in objects:
            self._objects[_identity(obj)] = obj
            self._index.put(obj)

    @property
    def among(self) -> str:
        return " among these manifests" if self._behind is None else self._behind.among

    def get(self, group: str, kind: str, key: ObjectKey) -> Object | None:
        found = self._objects.get((group, kind, key))
        if found is None and self._behind is not None:
            return self._behind.get(group, kind, key)
        return found

    def serves(self, group: str, kind: str) -> bool:
        return True if self._behind is None else self._behind.serves(group, kind)

    def filed(self, entry: IndexKey) -> Sequence[Filed]:
        """Objects of the cluster come first: they are older than manifests that are yet to be applied."""
        own = self._index.find(entry)
        if self._behind is None:
            return own
        there = [
            each
            for each in self._behind.filed(entry)
            if (each.group, each.kind, each.key) not in self._objects
        ]
        return list(itertools.islice(itertools.chain(there, own), MANY))


NOBODY = Gathered(())
"""No other objects."""


def _identity(obj: Object) -> tuple[str, str, ObjectKey]:
    place = FieldCursor(obj)
    meta = place["metadata"]
    group = (place["apiVersion"].text or "").rpartition("/")[0]
    key = ObjectKey(meta["namespace"].text or "", meta["name"].text or "")
    return group, place["kind"].text or "", key


# Precedence of competing objects, and which ones count as others.
_NEVER = "~"
"""Sorts after every time: an object without one is about to be created, so it is the youngest."""


def key_of(obj: FieldCursor) -> ObjectKey:
    meta = obj["metadata"]
    return ObjectKey(meta["namespace"].text or "", meta["name"].text or "")


def is_before(obj: FieldCursor, other: Filed) -> bool:
    """Whether the object precedes the other: oldest first, then by namespace and name."""
    created = obj.at("metadata.creationTimestamp").text or _NEVER
    return (created, *key_of(obj)) < (other.created or _NEVER, *other.key)


def others_than(obj: FieldCursor, filed: Iterable[Filed]) -> list[Filed]:
    """Without the object itself and its owners, which act through it."""
    kind, key = obj["kind"].text, key_of(obj)
    owners = {
        (owner["kind"].text, owner["name"].text) for owner in obj.at("metadata.ownerReferences").items()
    }
    return [
        each
        for each in filed
        if (each.kind, each.key) != (kind, key)
        and not (each.namespace == key.namespace and (each.kind, each.name) in owners)
    ]
