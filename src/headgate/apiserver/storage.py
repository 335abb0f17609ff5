"""Objects on disk: one table and one resource version, which increases with every write and is never reused.

SQLite runs on the event loop, which makes every read-modify-write atomic without locks, and is cheaper than
switching to another thread and back. `commits` flushes writes to disk, many at a time.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from headgate.apiserver import errors, space
from headgate.apiserver.commits import GroupCommit

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    revision INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS revision (id INTEGER PRIMARY KEY CHECK (id = 1), value INTEGER NOT NULL);
INSERT OR IGNORE INTO revision VALUES (1, 1);
"""


class Key(NamedTuple):
    """The key of an object. `resource` is "plural.group" (or "plural"), so all versions share it."""

    resource: str
    namespace: str
    name: str


class Stored(NamedTuple):
    """An object as stored: JSON in its storage version, including resourceVersion."""

    key: Key
    revision: int
    body: bytes

    def decode(self) -> dict[str, Any]:
        obj: dict[str, Any] = msgspec.json.decode(self.body)
        return obj

    def again(self) -> Draft | dict[str, Any]:
        """The object for another resource version, decoded only if the version's position is ambiguous."""
        version = b'"resourceVersion":"%d"' % self.revision
        return Draft(self.body, version) if self.body.count(version) == 1 else self.decode()


class Draft(NamedTuple):
    """An object as JSON before its resource version is known.

    A placeholder that occurs nowhere else in the body stands for the resource version field and its value.
    """

    body: bytes
    placeholder: bytes

    def stamped(self, revision: int) -> bytes:
        return self.body.replace(self.placeholder, b'"resourceVersion":"%d"' % revision, 1)

    @classmethod
    def of(cls, body: bytes, version: str) -> Draft:
        """An object whose metadata.resourceVersion is a text that occurs nowhere else in it."""
        return cls(body, b'"resourceVersion":"%s"' % version.encode())


@dataclass(frozen=True, slots=True)
class Event:
    """One committed write. `old` is the previous state (absent for ADDED)."""

    type: EventType
    new: Stored
    old: Stored | None

    @property
    def revision(self) -> int:
        return self.new.revision

    @property
    def size(self) -> int:
        """Bytes that it holds in memory."""
        return len(self.new.body) + (len(self.old.body) if self.old else 0)

    @property
    def growth(self) -> int:
        """Bytes by which it grew the store."""
        now = len(self.new.body) if self.type != "DELETED" else 0
        return now - (len(self.old.body) if self.old else 0)


class StateError(RuntimeError):
    """The object database cannot be opened, or is not a database."""


class NoSpaceError(StateError):
    """The disk of the state directory is full."""

    def __init__(self, state: Path) -> None:
        super().__init__(f"no space left in {state}; free some, or choose another directory with --state")


class StateInUseError(StateError):
    """Another process has the state directory open."""


def _where(resource: str, namespace: str, after: tuple[str, str]) -> tuple[str, list[str]]:
    """The condition for objects of a kind, in one namespace or all, after a position.

    SQLite evaluates each by a search in the primary key, however many objects come before.
    """
    if not namespace:
        if not any(after):
            return "resource=?", [resource]
        return "resource=? AND (namespace, name) > (?, ?)", [resource, *after]
    if after[0] > namespace:
        return "FALSE", []
    name = after[1] if after[0] == namespace else ""
    return "resource=? AND namespace=? AND name > ?", [resource, namespace, name]


_ADDS = {"ADDED": 1, "MODIFIED": 0, "DELETED": -1}
_KEPT_FREE_BYTES = 4 << 20
"""Free pages that the file keeps for future objects."""
_CACHED_OBJECTS = 256
_CACHED_BYTES = 16 * 1024
"""Larger objects are not cached, so that the cache stays below 4 MB."""


class Store:
    """The SQLite file. Listeners are called for each write once it is on disk, in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # It contains Secrets, and its side files inherit its mode.
        path.touch(mode=0o600)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._listeners: list[Callable[[Event], None]] = []
        try:
            # Exclusive locking keeps a second server out, and avoids a shared-memory file.
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA busy_timeout=200")
            space.open_log(self._db, path)
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            self._db.close()
            if "disk is full" in str(error):
                raise NoSpaceError(path.parent) from error
            if "locked" not in str(error):
                told = f"cannot use {path}: {error}; move it away, or choose another --state directory"
                raise StateError(told) from error
            raise StateInUseError(
                f"another API server uses {path}; stop it, or choose another --state directory"
            ) from error
        self._revision: int = self._db.execute("SELECT value FROM revision").fetchone()[0]
        self._told: int = self._revision
        sizes = "SELECT resource, count(*), sum(length(body)) FROM objects GROUP BY resource"
        kinds = self._db.execute(sizes).fetchall()
        self._counts = Counter({resource: int(count) for resource, count, _ in kinds})
        self._bytes = sum(int(size) for _, _, size in kinds)
        self._recent: dict[Key, Stored | None] = {}
        self._commits = GroupCommit(
            self._db,
            Path(f"{path}-wal"),
            before=self._save_revision,
            deliver=self._tell,
            undo=self._undo,
            failed=self._fail,
            reserve=lambda error: self._space.given_up(str(error)),
        )
        self._space = space.Space(self._db, path, lambda: self._commits.idle)
        self._refill()

    @property
    def revision(self) -> int:
        """The resource version of the newest write."""
        return self._revision

    @property
    def told(self) -> int:
        """The resource version up to which everything is on disk and listeners were called."""
        return self._told

    def __len__(self) -> int:
        return self._counts.total()

    def count_of(self, resource: str) -> int:
        """How many objects of a kind there are; costs nothing."""
        return self._counts[resource]

    @property
    def bytes(self) -> int:
        """The size of all objects together, as JSON."""
        return self._bytes

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call the listener for each write that is on disk. It must be fast and must not raise."""
        self._listeners.append(listener)

    def get(self, key: Key) -> Stored | None:
        if key in self._recent:
            return self._recent[key]
        row = self._db.execute(
            "SELECT revision, body FROM objects WHERE resource=? AND namespace=? AND name=?", key
        ).fetchone()
        found = Stored(key, *row) if row else None
        self._remember(found, key)
        return found

    def select(
        self, resource: str, namespace: str = "", after: tuple[str, str] = ("", "")
    ) -> Generator[Stored]:
        """Objects of a kind by namespace and name, in one namespace or all, after a position.

        Exhaust or close the iterator before the next write.
        """
        where, values = _where(resource, namespace, after)
        cursor = self._db.execute(
            f"SELECT namespace, name, revision, body FROM objects WHERE {where} ORDER BY namespace, name",  # noqa: S608
            values,
        )
        for within, name, revision, body in cursor:
            yield Stored(Key(resource, within, name), revision, body)

    def count(self, resource: str, namespace: str = "", after: tuple[str, str] = ("", "")) -> int:
        """How many objects `select` would return."""
        where, values = _where(resource, namespace, after)
        row = self._db.execute(f"SELECT count(*) FROM objects WHERE {where}", values).fetchone()  # noqa: S608
        return int(row[0])

    def all(self) -> Iterator[Stored]:
        """Every object of every kind; exhaust or close the iterator before the next write."""
        for row in self._db.execute("SELECT resource, namespace, name, revision, body FROM objects"):
            yield Stored(Key(*row[:3]), row[3], row[4])

    def resources(self) -> list[str]:
        """The kinds that have objects."""
        return sorted(resource for resource, count in self._counts.items() if count)

    def put(
        self,
        key: Key,
        obj: dict[str, Any] | Draft,
        max_bytes: int | None = None,
        *,
        for_deletion: bool = False,
    ) -> Stored:
        """Write an object with the next resource version, which is set in its metadata.

        413 if its JSON has more than `max_bytes`; 507 on a full disk, unless it is a step of a deletion.
        """
        if for_deletion:
            self._space.spare()
        else:
            self._space.check()
        old = self.get(key)
        new = self._stamped(key, obj)
        if max_bytes is not None and len(new.body) > max_bytes:
            raise errors.too_large(max_bytes)
        self._write(
            Event("MODIFIED" if old else "ADDED", new, old),
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
            (*key, new.revision, new.body),
            for_deletion=for_deletion,
        )
        return new

    def delete(self, key: Key, last: dict[str, Any] | Draft | None = None) -> Stored:
        """Remove an object; returns its last state (`last`, if given) at the revision of the deletion."""
        old = self.get(key)
        if old is None:
            raise KeyError(key)
        self._space.spare()
        new = self._stamped(key, old.again() if last is None else last)
        statement = "DELETE FROM objects WHERE resource=? AND namespace=? AND name=?"
        self._write(Event("DELETED", new, old), statement, key, for_deletion=True)
        return new

    async def settled(self) -> None:
        """Wait until everything written so far is on disk; raises sqlite3.OperationalError if that fails.

        Must be called without another await after the write, or read, that the response depends on: so
        clients never see anything that a crash could undo.
        """
        await self._commits.settled()

    def pending(self) -> list[Event]:
        """Writes that listeners were not called for yet, because they are not on disk."""
        return self._commits.pending()

    def flush(self) -> None:
        """Flush everything written to disk, and call the listeners, before returning."""
        self._commits.flush()

    def write_failure(self) -> str | None:
        """Why nothing can be written now; checks again at most once a second."""
        if self._commits.broken is not None:
            return str(self._commits.broken)
        self._space.recover()
        return self._space.failure

    @property
    def takes_deletions(self) -> bool:
        """Whether there is a reserve for deletions on a full disk."""
        return self._space.takes_deletions

    def write_file(self, write: Callable[[], T]) -> T:
        """Write a small file that the server needs, on a full disk in the reserve for deletions."""
        return self._space.write_file(write)

    def tidy(self) -> None:
        """Return space of deleted objects to the disk, a part at a time."""
        if self._space.failure is None and self._space.free_bytes() > _KEPT_FREE_BYTES:
            self._space.give_back()

    def close(self) -> None:
        try:
            self._commits.close()
        finally:
            self._db.close()
            self._refill()  # with the space of the log

    def statistics(self) -> dict[str, int]:
        sizes = {"objects": len(self), "revision": self._revision, "bytes": self.bytes}
        return sizes | self._commits.statistics() | {"writable": int(self._space.failure is None)}

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, sqlite3.OperationalError):
            self._space.fail(str(error))

    def _refill(self) -> None:
        if len(self):  # otherwise there is nothing to delete
            self._space.refill()

    def _remember(self, stored: Stored | None, key: Key) -> None:
        if len(self._recent) >= _CACHED_OBJECTS:
            self._recent.clear()
        if stored is None or len(stored.body) <= _CACHED_BYTES:
            self._recent[key] = stored
        else:
            self._recent.pop(key, None)

    def _stamped(self, key: Key, obj: dict[str, Any] | Draft) -> Stored:
        revision = self._revision + 1
        if isinstance(obj, Draft):
            return Stored(key, revision, obj.stamped(revision))
        obj["metadata"]["resourceVersion"] = str(revision)
        return Stored(key, revision, msgspec.json.encode(obj))

    def _write(self, event: Event, statement: str, values: tuple[Any, ...], *, for_deletion: bool) -> None:
        new = event.new
        self._revision = new.revision
        self._counts[new.key.resource] += _ADDS[event.type]
        self._bytes += event.growth
        self._remember(new if event.type != "DELETED" else None, new.key)
        try:
            self._commits.execute(statement, values, event, for_deletion=for_deletion)
        except sqlite3.Error:
            self._undo([event])
            raise

    def _save_revision(self) -> None:
        self._db.execute("UPDATE revision SET value=?", (self._revision,))

    def _undo(self, events: list[Event]) -> None:
        """The writes were rolled back: the next writes get these resource versions."""
        self._recent.clear()
        for event in events:
            self._counts[event.new.key.resource] -= _ADDS[event.type]
        self._bytes -= sum(event.growth for event in events)
        if events:
            self._revision = min(self._revision, events[0].revision - 1)

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            self._told = event.revision
            for listener in self._listeners:
                listener(event)
