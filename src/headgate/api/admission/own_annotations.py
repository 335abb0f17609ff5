"""Annotations of ours on kinds that have some: those that nobody reads, or that need another beside them."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from headgate.api import marks
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings

__all__ = ["warn"]


def warn(kinds: str, annotations: FieldCursor, known: Collection[str], found: Findings) -> None:
    """Warns of those that are not `known`; `kinds` is the kind in the plural."""
    written = annotations.texts
    for name in written:
        if name.startswith(marks.DOMAIN) and name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1, 0.8)
            told = f"; did you mean {near[0]}?" if near else ""
            found.warn(annotations.key(name), f"no annotation of {kinds} has this name{told}")
    for name in (marks.KV_EVENTS_REPLAY, marks.KV_EVENTS_RANKS):
        if name in written and marks.KV_EVENTS not in written:
            told = f"has an effect only on Pods that have {marks.KV_EVENTS} themselves"
            found.warn(annotations.key(name), told)
