"""Space on the disk: a reserve that lets objects be deleted when there is none left.

A delete makes the database smaller in the end, but writes to its log before that, which a full disk refuses.
So a file of a few megabytes holds space. When a write fails, only deletions are taken from then on, and one
that fails is done again in the space of that file, which is removed for it. What is left is taken back at
once, so that nobody else fills it. Nor is the log made shorter meanwhile: SQLite writes over it from its
beginning. The store tries again once a second, when somebody asks: if the reserve is whole and there is space
besides, writes are taken again.
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
"""Twice the log at which SQLite moves it into the database."""
ROOM_BYTES = 4 << 20
"""Space besides the reserve without which nothing but deletions is taken: the largest object, in the log and
in the file."""
_RESERVE_STEPS = 8
"""A reserve for which there is not enough space is made smaller by this part of it at a time."""
TRY_AGAIN_S = 1.0
_LOG_BYTES = 4 * RESERVE_BYTES
"""What is kept of a log that one large transaction has made longer."""
_MAX_CONVERTED_BYTES = 64 << 20
_PAGES_AT_ONCE = 2048
"""Free pages given back to the disk at a time: as much as the reserve."""
_INCREMENTAL = 2


def open_log(db: sqlite3.Connection, path: Path) -> None:
    """Turns to WAL mode with a log that stays short; lets a database give free pages back to the disk.

    A file of an earlier release is converted, if that is quick; else it only reuses its free pages itself.
    """
    if not _gives_back(db):  # which is asked first, because a full disk does not take the setting again
        db.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")  # of a new file
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
    if not _gives_back(db) and path.stat().st_size <= _MAX_CONVERTED_BYTES:
        db.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
        with contextlib.suppress(sqlite3.OperationalError):  # the disk is full
            db.execute("VACUUM")


def _gives_back(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL)


class Space:
    """Owner of the reserve; knows whether writes succeed."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        idle: Callable[[], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`idle` says that no transaction is under way."""
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
        """507 while only deletions are taken."""
        if self.failure is not None:
            self.recover()
        if self.failure is not None:
            why = f"{self._folder}: {self.failure}"
            raise errors.insufficient_storage(why, takes_deletions=self.takes_deletions)

    def spare(self) -> None:
        """Before a step of a deletion: on a full disk the log begins anew as often as it can."""
        if self.failure is not None and self._idle():
            with contextlib.suppress(sqlite3.Error):
                self._move_log()

    def fail(self, why: str) -> None:
        """A write has failed: from now on only deletions are taken."""
        if self.failure is None:
            log.error(
                "cannot write to %s: %s; only deletions are taken until there is space", self._folder, why
            )
        self.failure = why
        self._try_at = self._now() + TRY_AGAIN_S

    @contextlib.contextmanager
    def given_up(self, why: str) -> Generator[None]:
        """Something that must be written, for which there was no space, has that of the reserve."""
        self.fail(why)
        with contextlib.suppress(OSError):
            self._reserve.unlink()
        yield
        self.refill()

    def write_file(self, write: Callable[[], T]) -> T:
        """Writes a small file that the server needs, on a full disk in space of the reserve."""
        try:
            return write()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            with self.given_up(errors.DISK_FULL):
                return write()

    def refill(self) -> None:
        """Makes the reserve as large as there is space for it."""
        for steps in range(_RESERVE_STEPS, 0, -1):
            size = RESERVE_BYTES * steps // _RESERVE_STEPS
            if size <= self._size() or self._allocate(size):
                return

    def recover(self) -> None:
        """Looks whether writes succeed again, at most once a second."""
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
        """Gives some of the free pages of the database back to the disk."""
        if self._idle():
            # A script, since `execute` would do the first step of this statement only, which has no rows.
            self._db.executescript(f"PRAGMA incremental_vacuum({pages})")

    def free_bytes(self) -> int:
        """What the database has kept of deleted objects."""
        pages, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size")
        )
        return int(pages * size)

    def _shrink(self) -> None:
        """As `give_back`, in steps for which there is space in the log, or else in the reserve."""
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
        """Moves the log into the database. Its file stays as long as it is."""
        self._db.execute("PRAGMA wal_checkpoint").fetchall()

    def _has_room(self) -> bool:
        """Makes the reserve whole, if there is space for it and for other writes besides."""
        size = self._size()
        free = shutil.disk_usage(self._folder).free
        return free + size >= RESERVE_BYTES + ROOM_BYTES and self._allocate(RESERVE_BYTES, ROOM_BYTES)

    def _size(self) -> int:
        try:
            return self._reserve.stat().st_size
        except OSError:
            return 0

    def _allocate(self, size: int, besides: int = 0) -> bool:
        """Whether the reserve has this size now, and there was space for so much more."""
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
