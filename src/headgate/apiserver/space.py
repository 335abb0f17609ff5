"""Disk space: a reserve that allows objects to be deleted when the disk is full.

A delete eventually shrinks the database, but first writes to its log, which fails on a full disk. So a file
of a few megabytes reserves space. When a write fails, only deletions are accepted from then on; one that
fails is repeated in the space of that file, which is removed for it. The rest is reserved again immediately,
before other processes use it. The log is not truncated meanwhile: SQLite overwrites it from its beginning.
When requests arrive, the store checks at most once a second: if the reserve is complete and there is
additional space, all writes are accepted again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar

from headgate.apiserver import errors

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

RESERVE_BYTES = 8 << 20
"""Twice the log size at which SQLite moves it into the database."""
ROOM_BYTES = 4 << 20
"""Space besides the reserve required for other writes: the largest object, in the log and in the file."""
_RESERVE_STEPS = 8
"""If space is short, the reserve is reduced by this fraction at a time."""
TRY_AGAIN_S = 1.0
_LOG_BYTES = 4 * RESERVE_BYTES
"""Size to which a log grown by a large transaction is truncated."""
_MAX_CONVERTED_BYTES = 64 << 20
_PAGES_AT_ONCE = 2048
"""Free pages returned to the disk at a time: as much as the reserve."""
_INCREMENTAL = 2


def open_log(db: sqlite3.Connection, path: Path) -> None:
    """Enable WAL mode with a short log, and let the database return free pages to the disk.

    A file of an earlier release is converted if that is fast; otherwise, it only reuses its own free pages.
    """
    if not _gives_back(db):  # checked first, because a full disk does not accept the setting again
        db.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")  # for a new file
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
    if not _gives_back(db) and path.stat().st_size <= _MAX_CONVERTED_BYTES:
        db.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
        with contextlib.suppress(sqlite3.OperationalError):  # the disk is full
            db.execute("VACUUM")


def _gives_back(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL)


class Space:
    """Manages the reserve, and knows whether writes succeed."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        idle: Callable[[], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`idle` returns whether no transaction is in progress."""
        self._db = db
        self._reserve = path.with_name(f"{path.name}-reserve")
        self._folder = path.parent
        self._idle = idle
        self._now = now
        self._try_at = 0.0
        self.failure: str | None = None
        """Why writes fail; None while they succeed."""
        if not self._has_room():
            self.fail("there is too little free space")

    @property
    def takes_deletions(self) -> bool:
        """Whether there is a reserve."""
        return self._size() > 0

    def check(self) -> None:
        """507 while only deletions are accepted."""
        if self.failure is not None:
            self.recover()
        if self.failure is not None:
            why = f"{self._folder}: {self.failure}"
            raise errors.insufficient_storage(why, takes_deletions=self.takes_deletions)

    def spare(self) -> None:
        """Before a step of a deletion on a full disk: restart the log from its beginning if possible."""
        if self.failure is not None and self._idle():
            with contextlib.suppress(sqlite3.Error):
                self._move_log()

    def fail(self, why: str) -> None:
        """A write has failed: from now on, only deletions are accepted."""
        if self.failure is None:
            log.error(
                "cannot write to %s: %s; only deletions are taken until there is space", self._folder, why
            )
        self.failure = why
        self._try_at = self._now() + TRY_AGAIN_S

    @contextlib.contextmanager
    def given_up(self, why: str) -> Generator[None]:
        """Free the reserve within this context, for a necessary write that lacked space."""
        self.fail(why)
        with contextlib.suppress(OSError):
            self._reserve.unlink()
        yield
        self.refill()

    def write_file(self, write: Callable[[], T]) -> T:
        """Write a small file that the server needs, on a full disk in the space of the reserve."""
        try:
            return write()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            with self.given_up(errors.DISK_FULL):
                return write()

    def refill(self) -> None:
        """Make the reserve as large as the available space allows."""
        for steps in range(_RESERVE_STEPS, 0, -1):
            size = RESERVE_BYTES * steps // _RESERVE_STEPS
            if size <= self._size() or self._allocate(size):
                return

    def recover(self) -> None:
        """Check whether writes succeed again, at most once a second."""
        if self.failure is None or self._now() < self._try_at or not self._idle():
            return
        self._try_at = self._now() + TRY_AGAIN_S
        try:
            self._shrink()
            if not self._has_room():
                self.refill()
                return
            self._db.execute("UPDATE revision SET value=value")
        except sqlite3.Error as error:
            self.failure = str(error)
            self.refill()
            return
        log.warning("%s can be written again", self._folder)
        self.failure = None

    def give_back(self, pages: int = _PAGES_AT_ONCE) -> None:
        """Return some free pages of the database to the disk."""
        if self._idle():
            # A script, because `execute` would only run the first step of this statement, which returns no
            # rows.
            self._db.executescript(f"PRAGMA incremental_vacuum({pages})")

    def free_bytes(self) -> int:
        """Space of deleted objects that the database has kept."""
        pages, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size")
        )
        return int(pages * size)

    def _shrink(self) -> None:
        """Like `give_back`, in steps that fit in the log, or else in the reserve."""
        self.spare()
        for _ in range(_RESERVE_STEPS):
            if not self.free_bytes():
                return
            try:
                self.give_back(_PAGES_AT_ONCE // _RESERVE_STEPS)
            except sqlite3.OperationalError as error:
                with self.given_up(str(error)):
                    self.give_back(_PAGES_AT_ONCE // _RESERVE_STEPS)
            self._move_log()

    def _move_log(self) -> None:
        """Move the log into the database. Its file keeps its size."""
        self._db.execute("PRAGMA wal_checkpoint").fetchall()

    def _has_room(self) -> bool:
        """Complete the reserve, if there is space for it and for other writes."""
        size = self._size()
        free = shutil.disk_usage(self._folder).free
        return free + size >= RESERVE_BYTES + ROOM_BYTES and self._allocate(RESERVE_BYTES, ROOM_BYTES)

    def _size(self) -> int:
        try:
            return self._reserve.stat().st_size
        except OSError:
            return 0

    def _allocate(self, size: int, besides: int = 0) -> bool:
        """Make the reserve this large; returns whether that worked with `besides` bytes of space to spare."""
        had = min(self._size(), RESERVE_BYTES)
        try:
            with self._reserve.open("ab") as file:
                os.chmod(file.fileno(), 0o600)
                os.posix_fallocate(file.fileno(), 0, size + besides)
                os.truncate(file.fileno(), size)
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(self._reserve, had)
            return False
        return True
