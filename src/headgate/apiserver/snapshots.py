"""A kind as it was at a past resource version: what is stored now, with the later events taken back.

So the pages of a list are all of one moment without anything being kept for them. It reaches back as far
as the event log does.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.apiserver.selectors import Selector
from headgate.apiserver.storage import Event, Store, Stored

Position = tuple[str, str]
"""Namespace and name; a page begins behind one."""


class Snapshot:
    """The objects of a kind, of one namespace or of all, as they were before these events."""

    def __init__(self, store: Store, resource: str, namespace: str, later: list[Event]) -> None:
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._before: dict[Position, Stored | None] = {}
        for event in later:
            key = event.new.key
            if not namespace or key.namespace == namespace:
                # The first event after the moment says what there was.
                self._before.setdefault((key.namespace, key.name), event.old)

    def select(self, selector: Selector, after: Position) -> Iterator[Stored]:
        """Those that a selector matches, ordered, behind a position."""
        return (stored for stored in self._ordered(after) if not selector or selector.matches(stored))

    def count(self, after: Position) -> int:
        """How many there were behind a position."""
        count = self._store.count(self._resource, self._namespace, after)
        changed = {position for position in self._before if position > after}
        present = self._store.select(self._resource, self._namespace, after) if changed else iter(())
        count -= sum((stored.key.namespace, stored.key.name) in changed for stored in present)
        return count + sum(self._before[position] is not None for position in changed)

    def _ordered(self, after: Position) -> Iterator[Stored]:
        past = sorted((p, s) for p, s in self._before.items() if s is not None and p > after)
        waiting = iter(past)
        due = next(waiting, None)
        for stored in self._store.select(self._resource, self._namespace, after):
            position = (stored.key.namespace, stored.key.name)
            while due is not None and due[0] <= position:
                yield due[1]
                due = next(waiting, None)
            if position not in self._before:
                yield stored
        while due is not None:
            yield due[1]
            due = next(waiting, None)
