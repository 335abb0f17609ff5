"""What was written, in order, and what lists and watches must therefore show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import weir_fields
from weir_fields import HELD_BY
from weir_model import Manager, Weir

END = "end"
"""The tier of the objects that mark how far a watch is read; every selection has them."""


class Place(NamedTuple):
    """Where an object is."""

    namespace: str
    name: str


class Selection(NamedTuple):
    """What a list or a watch is about: one namespace or all, one tier or all."""

    namespace: str
    tier: str | None

    def selector(self, history: str) -> str:
        """Labels: over all namespaces there may be objects of others, but not in a history's own."""
        tiers = [f"tier in ({self.tier},{END})"] if self.tier else []
        return ",".join(tiers + ([] if self.namespace else [f"history={history}"]))

    def has(self, place: Place, weir: Weir | None) -> bool:
        if weir is None or self.namespace not in ("", place.namespace):
            return False
        return self.tier is None or weir.tier in (self.tier, END)


@dataclass(frozen=True)
class Told:
    """A write. The version of a deletion is told by watches only: None."""

    place: Place
    before: Weir | None
    after: Weir | None

    @property
    def version(self) -> int | None:
        return self.after.version if self.after else None


class Event(NamedTuple):
    """An event as a watcher must see it."""

    type: str
    place: Place
    weir: Weir
    version: int | None
    writes: int
    """How many writes there were up to it."""


class Start(NamedTuple):
    """A version that a watch can begin from, and how many writes there were up to it."""

    version: int
    writes: int


class History:
    """The present and the past, as the model has them."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.present: dict[Place, Weir] = {}
        self.told: list[Told] = []
        self.starts = [Start(version, 0)]

    @property
    def version(self) -> int:
        """Every write that comes has a greater one."""
        return self.starts[-1].version

    def wrote(self, place: Place, weir: Weir) -> None:
        """Notes a write, with the version that it was given."""
        assert weir.version > self.version, "versions grow"
        self.told.append(Told(place, self.present.get(place), weir))
        self.present[place] = weir
        self.read(weir.version)

    def removed(self, place: Place) -> None:
        self.told.append(Told(place, self.present.pop(place), None))

    def read(self, version: int) -> None:
        """Notes a version that the server told now: all that was written so far is up to it."""
        last = self.starts[-1]
        assert version > last.version if last.writes < len(self.told) else version >= last.version
        self.starts.append(Start(version, len(self.told)))

    def selected(self, selection: Selection) -> list[tuple[Place, Weir]]:
        """What a list must show, in its order."""
        return [(place, weir) for place, weir in sorted(self.present.items()) if selection.has(place, weir)]

    def events(self, selection: Selection, writes: int) -> Iterator[Event]:
        """What a watch must tell after so many writes: what begins or ceases to match is added or deleted."""
        for number, told in enumerate(self.told[writes:], writes + 1):
            was, is_ = selection.has(told.place, told.before), selection.has(told.place, told.after)
            if is_ and told.after:
                yield Event("MODIFIED" if was else "ADDED", told.place, told.after, told.version, number)
            elif was and told.before:
                yield Event("DELETED", told.place, told.before, told.version, number)


def check(obj: Any, place: Place, weir: Weir) -> None:
    """Fails unless the object is what the model has: its fields, who owns them, and what the server adds."""
    meta = obj["metadata"]
    _check_identity(obj, place, weir)
    assert int(meta["resourceVersion"]) == weir.version
    assert weir_fields.flat(obj) == weir.fields
    assert obj.get("status", {}).get("state") == weir.state
    assert meta["generation"] == weir.generation
    assert ("deletionTimestamp" in meta) == weir.deleting
    found = {
        Manager(entry["manager"], entry["operation"], entry.get("subresource", "")): paths
        for entry in meta.get("managedFields", ())
        if (paths := weir_fields.owned(entry))
    }
    assert found == weir.owners


def check_event(found: Any, wanted: Event) -> None:
    """Fails unless a watcher was told what the model has."""
    assert found["type"] == wanted.type, (found, wanted)
    obj = found["object"]
    if wanted.type != "DELETED":
        check(obj, wanted.place, wanted.weir)
        return
    # The last state that was selected: of a finalizer that went with the object, servers tell either.
    _check_identity(obj, wanted.place, wanted.weir)
    if wanted.version is not None:
        assert int(obj["metadata"]["resourceVersion"]) == wanted.version
    shown, known = weir_fields.flat(obj), dict(wanted.weir.fields)
    for fields in (shown, known):
        fields.pop(("metadata", "finalizers", HELD_BY), None)
    assert shown == known


def _check_identity(obj: Any, place: Place, weir: Weir) -> None:
    assert (obj["apiVersion"], obj["kind"]) == ("conformance.headgate.dev/v1", "Weir")
    assert (obj["metadata"]["namespace"], obj["metadata"]["name"]) == place
    assert obj["metadata"]["uid"] == weir.uid
