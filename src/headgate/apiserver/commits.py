"""Group commit: concurrent writes share one transaction and one flush to disk.

All writes in one iteration of the event loop form one transaction. Its commit appends to SQLite's write-ahead
log, and a separate thread flushes that log to disk while the loop continues and collects the next
transaction. So the slower the disk, the more writes share a flush, and only clients that wrote, or read what
was written, wait for the disk. Without a running loop, each write is committed and flushed before it returns.

Flushing the log after each commit is what SQLite's synchronous=FULL does, so a power failure loses nothing;
with synchronous=NORMAL, SQLite itself performs the flushes that its checkpoints need.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

E = TypeVar("E")

_flush_file: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


@dataclass(eq=False)
class Batch(Generic[E]):
    """Writes that share a transaction and a flush, represented by their events."""

    events: list[E] = field(default_factory=list)
    statements: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    only_deletes: bool = True
    over: asyncio.Event = field(default_factory=asyncio.Event)
    error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        self.error = error
        self.over.set()


class GroupCommit(Generic[E]):
    """Manages the transactions of a connection in WAL mode that has no other users.

    `before` is called at the end of each transaction and may add to it. `deliver` receives the events of a
    batch once they are on disk; `undo` those of a batch that was rolled back, whose error is passed to
    `failed`. A failed transaction of deletions only is repeated within `reserve`, which receives the error.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        log: Path,
        *,
        before: Callable[[], None],
        deliver: Callable[[list[E]], None],
        undo: Callable[[list[E]], None],
        failed: Callable[[BaseException], None] = lambda _: None,
        reserve: Callable[[BaseException], AbstractContextManager[None]] = lambda _: contextlib.nullcontext(),
    ) -> None:
        self._db = db
        self._log = log
        self._log_descriptor: int | None = None
        self._before = before
        self._deliver = deliver
        self._undo = undo
        self._failed = failed
        self._reserve = reserve
        self._gathering: Batch[E] | None = None
        self._flushing: Batch[E] | None = None
        self._broken: BaseException | None = None
        self._flusher = ThreadPoolExecutor(1, "flush")
        self._commits = 0
        self._events = 0

    def execute(
        self, statement: str, values: tuple[Any, ...], event: E, *, for_deletion: bool = False
    ) -> None:
        """Run the statement in the current transaction.

        Raises sqlite3.OperationalError; then the whole transaction is discarded, and all of its writers get
        the error from `settled`.
        """
        self._check_whole()
        batch, later = self._gathering, True
        if batch is None:
            batch, later = self._begin()
        batch.only_deletes &= for_deletion
        self._attempt(batch, lambda: self._db.execute(statement, values))
        batch.statements.append((statement, values))
        batch.events.append(event)
        if not later:
            self.flush()

    async def settled(self) -> None:
        """Wait until everything written so far is on disk; raises sqlite3.OperationalError if that fails.

        Must be called without another await after the write, or read, that the response depends on.
        """
        self._check_whole()
        if (batch := self._gathering or self._flushing) is None:
            return
        await batch.over.wait()
        if batch.error is not None:
            raise sqlite3.OperationalError(str(batch.error)) from batch.error

    @property
    def idle(self) -> bool:
        """Whether nothing is being written."""
        return self._gathering is None and self._flushing is None

    @property
    def broken(self) -> BaseException | None:
        """The error after which all writes are refused."""
        return self._broken

    def pending(self) -> list[E]:
        """Events that were not delivered yet, in order."""
        return [event for batch in (self._flushing, self._gathering) if batch for event in batch.events]

    def flush(self) -> None:
        """Flush everything written to disk and deliver it, before returning."""
        earlier, batch = self._flushing, self._gathering
        if batch is not None:
            self._commit(batch)
        if earlier is None and batch is None:
            return
        try:
            _flush_file(self._descriptor())
        except OSError as error:
            self._break(error, earlier, batch)
            raise sqlite3.OperationalError(str(error)) from error
        for done in (earlier, batch):
            if done is not None:
                self._end(done)

    def close(self) -> None:
        """Flush pending writes, and release the thread and the log; the connection stays open."""
        try:
            if self._broken is None:
                self.flush()
        finally:
            self._flusher.shutdown()
            if self._log_descriptor is not None:
                os.close(self._log_descriptor)

    def statistics(self) -> dict[str, int]:
        return {"commits": self._commits, "writes": self._events}

    def _begin(self) -> tuple[Batch[E], bool]:
        """A new transaction, and whether the loop will commit it."""
        self._db.execute("BEGIN IMMEDIATE")
        self._gathering = batch = Batch[E]()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return batch, False
        if self._flushing is None:
            loop.call_soon(self._commit_gathered, loop)
        return batch, True

    def _commit_gathered(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit, and hand the flush to the thread; later writes wait until it is done."""
        if (batch := self._gathering) is None or self._flushing is not None:
            return
        try:
            self._commit(batch)
            descriptor = self._descriptor()
        except (sqlite3.Error, OSError):
            return  # the writers were notified
        self._flushing = batch
        flushed = loop.run_in_executor(self._flusher, _flush_file, descriptor)
        flushed.add_done_callback(lambda done: self._on_flushed(loop, batch, done.exception()))

    def _on_flushed(
        self, loop: asyncio.AbstractEventLoop, batch: Batch[E], error: BaseException | None
    ) -> None:
        if self._flushing is not batch:
            return  # `flush` was faster
        if error is not None:
            self._break(error, batch)
            return
        self._end(batch)
        self._commit_gathered(loop)

    def _commit(self, batch: Batch[E]) -> None:
        self._attempt(batch, self._write_log)
        self._gathering = None
        self._commits += 1
        self._events += len(batch.events)

    def _write_log(self) -> None:
        self._before()
        self._db.execute("COMMIT")

    def _attempt(self, batch: Batch[E], step: Callable[[], object]) -> None:
        """Run a step of the transaction, or abandon the whole transaction."""
        try:
            try:
                step()
            except sqlite3.OperationalError as error:
                if not batch.only_deletes:
                    raise
                with self._reserve(error):
                    self._begin_again(batch)
                    step()
        except BaseException as error:
            self._abandon(batch, error)
            raise

    def _begin_again(self, batch: Batch[E]) -> None:
        """Repeat the statements of the transaction from before the failure."""
        self._roll_back()
        self._db.execute("BEGIN IMMEDIATE")
        for statement, values in batch.statements:
            self._db.execute(statement, values)

    def _end(self, batch: Batch[E]) -> None:
        if self._flushing is batch:
            self._flushing = None
        self._deliver(batch.events)
        batch.end()

    def _abandon(self, batch: Batch[E], error: BaseException) -> None:
        self._roll_back()
        self._gathering = None
        self._undo(batch.events)
        batch.end(error)
        self._failed(error)

    def _roll_back(self) -> None:
        # SQLite may have rolled back the transaction itself, for instance when the disk is full.
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _break(self, error: BaseException, *committed: Batch[E] | None) -> None:
        """After a failed flush, the disk's state is unknown: refuse everything until a restart checks it."""
        self._broken = error
        if self._gathering is not None:
            self._abandon(self._gathering, error)
        for batch in committed:
            if batch is not None:
                batch.end(error)

    def _check_whole(self) -> None:
        if self._broken is not None:
            raise sqlite3.OperationalError(f"{self._broken}; restart the API server") from self._broken

    def _descriptor(self) -> int:
        """The descriptor of the log, which exists from the first commit until the database is closed."""
        if self._log_descriptor is None:
            self._log_descriptor = os.open(self._log, os.O_RDONLY)
        return self._log_descriptor
