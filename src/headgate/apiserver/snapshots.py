"""A kind as it was at a past resource version: what is stored now, with the later events taken back.

So the pages of a list are all of one moment without anything being kept for them. It reaches back as far
as the event log does. A long list is read in parts in the same way, with writes in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from headgate.apiserver.registry import Served
from headgate.apiserver.selectors import Selector
from headgate.apiserver.storage import Event, Key, Store, Stored
from headgate.apiserver.watch import Hub

Position = tuple[str, str]
"""Namespace and name; a page begins behind one."""


class Snapshot:
    """The objects of a kind, of one namespace or of all, as they were before these events."""

    def __init__(self, store: Store, resource: str, namespace: str, later: list[Event]) -> None:
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._before: dict[Position, Stored | None] = {}
        self._after: dict[Position, bool] = {}
        """Whether there is something now where there were changes."""
        for event in later:
            key = event.new.key
            if not namespace or key.namespace == namespace:
                # The first event after the moment says what there was, the last one what there is.
                self._before.setdefault((key.namespace, key.name), event.old)
                self._after[key.namespace, key.name] = event.type != "DELETED"

    def select(self, selector: Selector, after: Position) -> Generator[Stored]:
        """Those that a selector matches, ordered, behind a position."""
        return (stored for stored in self._ordered(after) if not selector or selector.matches(stored))

    def count(self, after: Position) -> int:
        """How many there were behind a position."""
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
"""What is read of a list at a time. Objects that a selector leaves out count as well, and each of its
requirements: they cost time."""
_ROW_BYTES = 64
"""What a row costs besides its body."""


class Scan:
    """Reads what a selector matches at one moment, part by part; others may write between two parts."""

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
        """`namespace` is empty for all; `limit` counts the objects that match."""
        self._store = store
        self._hub = hub
        self._served = served
        self._resource = served.resource
        self._namespace = namespace
        self._selector = selector
        self.position = after
        """That of the last object that was looked at, whether or not it matches."""
        self._left = limit
        self.revision = revision
        self.last = after
        """The position of the last object that was read."""
        self.done = False
        self.more = False
        """Whether there is another object that matches behind the limit."""

    def part(self) -> list[Stored]:
        """The next objects, perhaps none; `done` says whether they were the last.

        410 if the log has moved on.
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
        """How many objects, whatever the selector, there are behind the last one."""
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
