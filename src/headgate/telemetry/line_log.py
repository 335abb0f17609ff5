"""Writes log lines in batches from a thread of its own, so that a slow reader never stops the event loop."""

from __future__ import annotations

import logging
import os
import queue
import select
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from headgate.telemetry.log_clock import SECONDS

BATCHES = 256
WAITING_BYTES = 16 * 1024 * 1024
"""Batches, and their bytes, that may wait for a slow reader; beyond that, batches are dropped and counted."""


class LineLog:
    """Collects lines; `flush` hands them to the writing thread. Not thread-safe.

    Lines that cannot be written are dropped and counted: because the reader has gone, has stopped or is too
    slow, or because the disk is full. Writing resumes as soon as possible.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._lines: list[str] = []
        self._queue: queue.Queue[bytes | None] = queue.Queue(BATCHES)
        self._lines_dropped = 0
        self._bytes_queued = 0
        """Only the owner's thread changes these two."""
        self._lines_written = 0
        self._lines_failed = 0
        self._bytes_done = 0
        """Only the writing thread changes these three."""
        self._thread = threading.Thread(target=self._write, name="line-log", daemon=True)
        self._thread.start()
        self.add = self._lines.append
        """Adds one line, which ends in a newline. Bound once: it is called for every request."""

    def flush(self) -> None:
        if not self._lines:
            return
        batch = "".join(self._lines).encode(errors="replace")
        waiting = self._bytes_queued - self._bytes_done
        try:
            if waiting and waiting + len(batch) > WAITING_BYTES:
                raise queue.Full
            self._queue.put_nowait(batch)
            self._bytes_queued += len(batch)
        except queue.Full:
            self._lines_dropped += len(self._lines)
        self._lines.clear()

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is left, for at most `timeout_s` seconds."""
        self.flush()
        until = time.monotonic() + timeout_s
        with suppress(queue.Full):
            self._queue.put(None, timeout=timeout_s)
        self._thread.join(max(0.0, until - time.monotonic()))

    def statistics(self) -> dict[str, int]:
        return {
            "lines_written": self._lines_written,
            "lines_dropped": self._lines_dropped + self._lines_failed,
            "batches_waiting": self._queue.qsize(),
        }

    def _write(self) -> None:
        # Leave signals to the main thread, where they interrupt waits.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (batch := self._queue.get()) is not None:
            try:
                for view in _pieces(batch, select.PIPE_BUF if self._is_pipe else len(batch)):
                    while view:
                        view = view[self._write_some(view) :]
                self._lines_written += batch.count(b"\n")
            except OSError:  # a full disk may get free space, a named pipe another reader
                self._lines_failed += batch.count(b"\n")
            self._bytes_done += len(batch)

    def _write_some(self, view: memoryview) -> int:
        try:
            return os.write(self._fd, view)
        except BlockingIOError:  # another process made our shared standard output non-blocking
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            poll.poll()
            return 0


class LineHandler(logging.Handler):
    """Passes the records of Python's logging to a LineLog: logger calls never wait for a reader."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.lines = LineLog(fd)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            line = f"{record.name}: a message could not be formatted: {record.msg!r:.200}"
        # Logging holds a lock here, so lines of several threads are serialized.
        self.lines.add(f"{line}\n")
        self.lines.flush()

    def close(self) -> None:
        self.lines.close()
        super().close()


def _pieces(batch: bytes, most: int) -> Iterator[memoryview]:
    """Split a batch into whole lines, at most `most` bytes at a time, except for a longer line.

    Up to PIPE_BUF bytes, a write to a pipe is atomic: several processes can share one without mixing lines.
    """
    view, start = memoryview(batch), 0
    while len(batch) - start > most:
        end = batch.rfind(b"\n", start, start + most) + 1 or batch.index(b"\n", start) + 1
        yield view[start:end]
        start = end
    yield view[start:]


# A logger for messages that another server can trigger without limit: few lines, the last of which is
# current.
#
# A server that flaps twenty times a second would write as many lines, which fill a disk and hide others. The
# first lines are written at once, later ones at intervals, with the number of suppressed lines. When it is
# quiet, the last suppressed line is written, so that the log ends with the current state.
AT_ONCE = 10
EVERY_S = 10.0
"""Seconds per line after the initial burst."""


class FewLines:
    """A rate-limited logger. Call `settle` periodically."""

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._saved = float(AT_ONCE)
        self._saved_at = now()
        self._left_out = 0
        self._last: tuple[int, str] | None = None
        """The last line suppressed since one was written."""

    def info(self, text: str, *arguments: object) -> None:
        self._write_or_suppress(logging.INFO, text, arguments)

    def warning(self, text: str, *arguments: object) -> None:
        self._write_or_suppress(logging.WARNING, text, arguments)

    def error(self, text: str, *arguments: object) -> None:
        self._write_or_suppress(logging.ERROR, text, arguments)

    def _write_or_suppress(self, level: int, text: str, arguments: tuple[object, ...]) -> None:
        if not self._log.isEnabledFor(level):
            return
        line = text % arguments
        if self._may_write():
            self._write(level, line)
        else:
            self._left_out += 1
            self._last = level, line

    def settle(self) -> None:
        """Write the last suppressed line, if there is one and the rate allows it."""
        if self._last is not None and self._may_write():
            self._left_out -= 1
            self._write(*self._last)

    def _may_write(self) -> bool:
        now = self._now()
        self._saved = min(self._saved + (now - self._saved_at) / EVERY_S, AT_ONCE)
        self._saved_at = now
        return self._saved >= 1.0

    def _write(self, level: int, line: str) -> None:
        self._saved -= 1.0
        left_out, self._left_out, self._last = self._left_out, 0, None
        if left_out:
            line = f"{line} (lines like it that were left out before: {left_out:,})"
        self._log.log(level, "%s", line)


class LineFormatter(logging.Formatter):
    """Formats the records of Python's logging with the same time as LogClock."""

    converter = staticmethod(time.gmtime)
    default_time_format = SECONDS
    default_msec_format = "%s.%03dZ"
