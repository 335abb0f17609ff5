"""Objects that claim the same: which of them comes first, and which are others at all."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.references import Filed
from headgate.api.meta import ObjectKey

__all__ = ["is_before", "key_of", "others_than"]

_NEVER = "~"
"""Sorts behind every time: an object that has none yet is about to be created, so it is the youngest."""


def key_of(obj: FieldCursor) -> ObjectKey:
    meta = obj["metadata"]
    return ObjectKey(meta["namespace"].text or "", meta["name"].text or "")


def is_before(obj: FieldCursor, other: Filed) -> bool:
    """Whether the object is asked before the other: oldest first, then by namespace and name."""
    created = obj.at("metadata.creationTimestamp").text or _NEVER
    return (created, *key_of(obj)) < (other.created or _NEVER, *other.key)


def others_than(obj: FieldCursor, filed: Iterable[Filed]) -> list[Filed]:
    """Without the object itself, and without the ones that own it: they speak through it."""
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
