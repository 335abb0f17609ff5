"""Writes log lines in batches from a thread of its own, so that a slow reader never stops the event loop."""

from __future__ import annotations

import errno
import os
import queue
import select
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress

_NOBODY_READS = frozenset({errno.EPIPE, errno.EBADF})

BATCHES = 256
"""Batches that may wait for a slow reader; after that, batches are dropped and counted."""


class LineLog:
    """Collects lines; `flush` hands them to the writing thread. Not safe for several threads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._lines: list[str] = []
        self._queue: queue.Queue[bytes | None] = queue.Queue(BATCHES)
        self._lines_dropped = 0
        self._lines_written = 0
        self._lines_failed = 0
        """These two are changed by the writing thread alone."""
        self._thread = threading.Thread(target=self._write, name="line-log", daemon=True)
        self._thread.start()
        self.add = self._lines.append
        """Adds one line, which ends in a newline. Bound once: it is called for every request."""

    def flush(self) -> None:
        if not self._lines:
            return
        try:
            self._queue.put_nowait("".join(self._lines).encode())
        except queue.Full:
            self._lines_dropped += len(self._lines)
        self._lines.clear()

    def close(self, timeout_s: float = 2.0) -> None:
        """Writes what is left, for at most `timeout_s` seconds."""
        self.flush()
        with suppress(queue.Full):
            self._queue.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)

    def statistics(self) -> dict[str, int]:
        return {
            "lines_written": self._lines_written,
            "lines_dropped": self._lines_dropped + self._lines_failed,
            "batches_waiting": self._queue.qsize(),
        }

    def _write(self) -> None:
        while (batch := self._queue.get()) is not None:
            try:
                for view in _pieces(batch, select.PIPE_BUF if self._is_pipe else len(batch)):
                    while view:
                        view = view[self._write_some(view) :]
                self._lines_written += batch.count(b"\n")
            except OSError as error:
                self._lines_failed += batch.count(b"\n")
                if error.errno in _NOBODY_READS:
                    return  # later batches are dropped once the queue is full
                # A full disk may have room again.

    def _write_some(self, view: memoryview) -> int:
        try:
            return os.write(self._fd, view)
        except BlockingIOError:  # whoever shares our standard output has made it non-blocking
            select.select([], [self._fd], [])
            return 0


def _pieces(batch: bytes, most: int) -> Iterator[memoryview]:
    """Whole lines of a batch, at most so many bytes at a time, but for a line that is longer.

    The system writes so much to a pipe in one go: several processes share one without mixing their lines.
    """
    view, start = memoryview(batch), 0
    while len(batch) - start > most:
        end = batch.rfind(b"\n", start, start + most) + 1 or batch.index(b"\n", start) + 1
        yield view[start:end]
        start = end
    yield view[start:]
