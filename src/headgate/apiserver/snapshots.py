"""The state of a kind at a past resource version: the current state with later events undone.

So all pages of a list show the same revision without keeping anything for them. It reaches back as far as the
event log. Long lists are read in parts in the same way, with writes in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from headgate.apiserver.registry import Served
from headgate.apiserver.selectors import Selector
from headgate.apiserver.storage import Event, Key, Store, Stored
from headgate.apiserver.watch import Hub

Position = tuple[str, str]
"""Namespace and name; a page begins after one."""


class Snapshot:
    """The objects of a kind, in one namespace or all, as they were before these events."""

    def __init__(self, store: Store, resource: str, namespace: str, later: list[Event]) -> None:
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._before: dict[Position, Stored | None] = {}
        self._after: dict[Position, bool] = {}
        """Whether a changed object exists now."""
        for event in later:
            key = event.new.key
            if not namespace or key.namespace == namespace:
                # The first event after the revision has the state at it, the last one the current state.
                self._before.setdefault((key.namespace, key.name), event.old)
                self._after[key.namespace, key.name] = event.type != "DELETED"

    def select(self, selector: Selector, after: Position) -> Generator[Stored]:
        """Matching objects in order, after a position."""
        return (stored for stored in self._ordered(after) if not selector or selector.matches(stored))

    def count(self, after: Position) -> int:
        """How many objects there were after a position."""
        count = self._store.count(self._resource, self._namespace, after)
        for position, was in self._before.items():
            if position > after:
                count += (was is not None) - self._after[position]
        return count

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


PART_BYTES = 256 * 1024
"""Bytes of a list read at a time. Objects that a selector excludes count as well, and so does each of its
requirements: they take time.
"""
_ROW_BYTES = 64
"""Cost of a row besides its body."""


class Scan:
    """Reads the matching objects at one revision, part by part; writes may happen between two parts."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        served: Served,
        namespace: str,
        selector: Selector,
        *,
        revision: int,
        after: Position = ("", ""),
        limit: int | None = None,
    ) -> None:
        """`namespace` is empty for all; `limit` counts matching objects."""
        self._store = store
        self._hub = hub
        self._served = served
        self._resource = served.resource
        self._namespace = namespace
        self._selector = selector
        self.position = after
        """Position of the last object examined, whether or not it matches."""
        self._left = limit
        self.revision = revision
        self.last = after
        """Position of the last object read."""
        self.done = False
        self.more = False
        """Whether another object after the limit matches."""

    def part(self) -> list[Stored]:
        """The next objects, possibly none; `done` says whether they were the last.

        Raises 410 if the event log has moved past the revision.
        """
        found: list[Stored] = []
        size = 0
        candidates = self._candidates()
        for stored in candidates:
            if self._selector.matches(stored) if self._selector else True:
                if self._left == 0:
                    self.more = self.done = True
                    break
                found.append(stored)
                self.last = (stored.key.namespace, stored.key.name)
                self._left = None if self._left is None else self._left - 1
            self.position = (stored.key.namespace, stored.key.name)
            size += len(stored.body) + _ROW_BYTES + self._selector.cost(len(stored.body))
            if size >= PART_BYTES:
                break
        else:
            self.done = True
        candidates.close()
        return found

    def remaining(self) -> int:
        """How many objects there are after the last one, ignoring the selector."""
        if self.revision == self._store.revision:
            return self._store.count(self._resource, self._namespace, self.last)
        return self._snapshot().count(self.last)

    def _candidates(self) -> Generator[Stored]:
        if self.revision != self._store.revision:
            return self._snapshot().select(Selector(), self.position)
        name = self._selector.name
        if name is not None and (self._namespace or not self._served.namespaced):
            return self._named(Key(self._resource, self._namespace, name))
        return self._store.select(self._resource, self._namespace, self.position)

    def _named(self, key: Key) -> Generator[Stored]:
        found = self._store.get(key)
        if found is not None and (key.namespace, key.name) > self.position:
            yield found

    def _snapshot(self) -> Snapshot:
        later = self._hub.after(self._resource, self.revision)
        later += [event for event in self._store.pending() if event.new.key.resource == self._resource]
        return Snapshot(self._store, self._resource, self._namespace, later)
