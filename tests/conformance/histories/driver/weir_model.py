"""What Kubernetes documents that becomes of a Weir, and of who owns its fields, by each kind of write.

Everything here is a value: a write makes a new Weir. Versions and uids are the server's to give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import weir_fields
from weir_fields import DEFAULTS, HELD_BY, Fields, Path

STATE: Path = ("status", "state")
HOLD: Path = ("metadata", "finalizers", HELD_BY)
TIER: Path = ("metadata", "labels", "tier")


class Manager(NamedTuple):
    """Who wrote, and how: these own fields apart from each other."""

    name: str
    operation: str
    subresource: str = ""


Owners = Mapping[Manager, frozenset[Path]]


class Conflict(NamedTuple):
    """Somebody else owns a field that an apply would change."""

    manager: str
    field: str


@dataclass(frozen=True)
class Weir:
    """An object as the model has it."""

    fields: Fields
    owners: Owners = field(default_factory=dict)
    version: int = 0
    uid: str = ""
    generation: int = 1
    state: str | None = None
    deleting: bool = False

    @property
    def held(self) -> bool:
        return HOLD in self.fields

    @property
    def tier(self) -> str | None:
        return self.fields.get(TIER)

    @property
    def over(self) -> bool:
        """Whether nothing keeps it any longer."""
        return self.deleting and not self.held

    def same_as(self, other: Weir) -> bool:
        """Whether a write that made one of the other has changed nothing: then it is no write."""
        return replace(self, version=0, generation=0) == replace(other, version=0, generation=0)


def created(fields: Fields, who: Manager) -> Weir:
    """Who creates an object owns all of it, defaults included."""
    complete = {**DEFAULTS, **fields}
    return Weir(complete, {who: frozenset(complete)})


def written(old: Weir, fields: Fields, who: Manager) -> Weir:
    """An update or a patch: who changes a field has it alone; what is gone, nobody has."""
    complete = {**DEFAULTS, **fields}
    changed = frozenset(
        path for path, value in complete.items() if path not in old.fields or old.fields[path] != value
    )
    gone = frozenset(old.fields.keys() - complete.keys())
    owners = {
        owner: paths - gone - (frozenset() if owner == who else changed)
        for owner, paths in old.owners.items()
    }
    owners[who] = owners.get(who, frozenset()) | changed
    return _next(old, complete, owners)


def conflicts(old: Weir, wanted: Fields, who: Manager) -> set[Conflict]:
    """The fields that an apply would change and that others own, with each of these."""
    against = _against(old, wanted)
    return {
        Conflict(owner.name, weir_fields.printed(path))
        for owner, paths in old.owners.items()
        if owner != who
        for path in paths & against
    }


def applied(old: Weir, wanted: Fields, who: Manager) -> Weir:
    """An apply that is forced or has no conflicts.

    What it says is so, and is owned by who applied it, besides those who want the same. What he owned and no
    longer says goes if nobody else owns it; an item of a list goes with all that is in it.
    """
    against = _against(old, wanted)
    others = {owner: paths - against for owner, paths in old.owners.items() if owner != who}
    shared = frozenset().union(*others.values())
    left = old.owners.get(who, frozenset()) - wanted.keys() - shared
    gone = {path for path in old.fields if any(path[: len(top)] == top for top in left)}
    kept = {path: value for path, value in {**old.fields, **wanted}.items() if path not in gone}
    owners = {owner: paths - gone for owner, paths in others.items()} | {who: frozenset(wanted)}
    return _next(old, {**DEFAULTS, **kept}, owners)


def applied_new(wanted: Fields, who: Manager) -> Weir:
    """An apply of what was not there: defaults are nobody's."""
    return Weir({**DEFAULTS, **wanted}, {who: frozenset(wanted)})


def with_state(old: Weir, state: str, who: Manager) -> Weir:
    """The status is written through its subresource, and counts as no generation."""
    if old.state == state:
        return old
    owners = {owner: paths - {STATE} for owner, paths in old.owners.items()}
    owners[who] = owners.get(who, frozenset()) | {STATE}
    return replace(old, state=state, owners=_nonempty(owners))


def doomed(old: Weir) -> Weir:
    """A delete of what a finalizer holds marks it, which is a generation."""
    return replace(old, deleting=True, generation=old.generation + 1)


def _against(old: Weir, wanted: Fields) -> frozenset[Path]:
    """What an apply would change."""
    return frozenset(
        path for path, value in wanted.items() if path not in old.fields or old.fields[path] != value
    )


def _next(old: Weir, fields: Fields, owners: Owners) -> Weir:
    is_new_generation = weir_fields.spec_of(fields) != weir_fields.spec_of(old.fields)
    generation = old.generation + is_new_generation
    return replace(old, fields=fields, owners=_nonempty(owners), generation=generation)


def _nonempty(owners: Owners) -> Owners:
    return {owner: paths for owner, paths in owners.items() if paths}
