"""Space on the disk: a reserve that lets objects be deleted when there is none left.

A delete makes the database smaller in the end, but writes to its log before that, which a full disk refuses.
So a file of a few megabytes holds space that is given up when a write fails. From then on only deletions are
taken. The store tries again once a second, when somebody asks: if the reserve can be made again and a write
succeeds, the disk has space again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from headgate.apiserver import errors

log = logging.getLogger(__name__)

RESERVE_BYTES = 8 << 20
"""Twice the log at which SQLite moves it into the database."""
TRY_AGAIN_S = 1.0
_LOG_BYTES = 4 * RESERVE_BYTES
"""What is kept of a log that one large transaction has made longer."""
_MOST_CONVERTED_BYTES = 64 << 20
_PAGES_AT_ONCE = 2048
"""Free pages given back to the disk at a time: as much as the reserve."""
_INCREMENTAL = 2


def open_log(db: sqlite3.Connection, path: Path) -> None:
    """Turns to WAL mode with a log that stays short; lets a database give free pages back to the disk.

    A file of an earlier release is converted, if that is quick; else it only reuses its free pages itself.
    """
    db.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")  # of a new file
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
    converted = db.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL
    if not converted and path.stat().st_size <= _MOST_CONVERTED_BYTES:
        db.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
        with contextlib.suppress(sqlite3.OperationalError):  # the disk is full
            db.execute("VACUUM")


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
        if not self._take_reserve():
            self.fail("there is no space for the reserve")

    def check(self) -> None:
        """507 while only deletions are taken."""
        if self.failure is not None:
            self.recover()
        if self.failure is not None:
            raise errors.insufficient_storage(f"{self._folder}: {self.failure}")

    def spare(self) -> None:
        """Before a step of a deletion: on a full disk the log is kept as short as it can be."""
        if self.failure is not None and self._idle():
            with contextlib.suppress(sqlite3.Error):
                self._shorten_log()

    def fail(self, why: str) -> None:
        """A write has failed: gives up the reserve for deletions."""
        if self.failure is None:
            log.error(
                "cannot write to %s: %s; only deletions are taken until there is space", self._folder, why
            )
        self.failure = why
        self._try_at = self._now() + TRY_AGAIN_S
        self._reserve.unlink(missing_ok=True)
        self.spare()

    def recover(self) -> None:
        """Looks whether writes succeed again, at most once a second."""
        if self.failure is None or self._now() < self._try_at or not self._idle():
            return
        self._try_at = self._now() + TRY_AGAIN_S
        try:
            self._shorten_log()
            self.give_back()
            self._shorten_log()
            if not self._take_reserve():
                return
            self._db.execute("UPDATE revision SET value=value")
        except sqlite3.Error as error:
            self._reserve.unlink(missing_ok=True)
            self.failure = str(error)
            return
        log.warning("%s can be written again", self._folder)
        self.failure = None

    def give_back(self) -> None:
        """Gives some of the free pages of the database back to the disk."""
        if self._idle():
            # A script, since `execute` would do the first step of this statement only, which has no rows.
            self._db.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")

    def free_bytes(self) -> int:
        """What the database has kept of deleted objects."""
        pages, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size")
        )
        return int(pages * size)

    def _shorten_log(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _take_reserve(self) -> bool:
        """Whether the reserve is there, whole."""
        try:
            with self._reserve.open("ab") as file:
                os.chmod(file.fileno(), 0o600)
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except OSError:
            self._reserve.unlink(missing_ok=True)
            return False
        return True
