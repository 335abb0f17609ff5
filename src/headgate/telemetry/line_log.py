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

BATCHES = 256
WAITING_BYTES = 16 * 1024 * 1024
"""Batches, and their bytes, that may wait for a slow reader; after that, batches are dropped and counted."""


class LineLog:
    """Collects lines; `flush` hands them to the writing thread. Not safe for several threads.

    Lines that cannot be written are dropped and counted: because the reader has gone, has stopped or is too
    slow, or because the disk is full. Later lines are written again as soon as that is possible.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._lines: list[str] = []
        self._queue: queue.Queue[bytes | None] = queue.Queue(BATCHES)
        self._lines_dropped = 0
        self._bytes_queued = 0
        """These two are changed by the owner's thread alone."""
        self._lines_written = 0
        self._lines_failed = 0
        self._bytes_done = 0
        """These three are changed by the writing thread alone."""
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
        """Writes what is left, for at most `timeout_s` seconds."""
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
        # Signals are for the main thread: only there they interrupt what waits.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (batch := self._queue.get()) is not None:
            try:
                for view in _pieces(batch, select.PIPE_BUF if self._is_pipe else len(batch)):
                    while view:
                        view = view[self._write_some(view) :]
                self._lines_written += batch.count(b"\n")
            except OSError:  # a full disk may have room again, a named pipe another reader
                self._lines_failed += batch.count(b"\n")
            self._bytes_done += len(batch)

    def _write_some(self, view: memoryview) -> int:
        try:
            return os.write(self._fd, view)
        except BlockingIOError:  # whoever shares our standard output has made it non-blocking
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            poll.poll()
            return 0


class LineHandler(logging.Handler):
    """Gives the records of Python's logging to a LineLog: no call of a logger ever waits for a reader."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.lines = LineLog(fd)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            line = f"{record.name}: a message could not be formatted: {record.msg!r:.200}"
        # Logging holds a lock around this: lines of several threads come one after the other.
        self.lines.add(f"{line}\n")
        self.lines.flush()

    def close(self) -> None:
        self.lines.close()
        super().close()


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


# A logger for what another server can make happen as often as it likes: few lines, of which the last
# counts.
#
# A server that goes up and down twenty times a second would write as many lines, which fill a disk and hide
# what others say. The first lines are written as they come. Then one is, now and then, with the number of
# those that were left out; and once it is quiet, the last of those, so that the log ends with how things
# are.
AT_ONCE = 10
EVERY_S = 10.0
"""Between two lines, once as many have been written."""


class FewLines:
    """`settle` is to be called now and then."""

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._saved = float(AT_ONCE)
        self._saved_at = now()
        self._left_out = 0
        self._last: tuple[int, str] | None = None
        """The last line that was left out, since one was written."""

    def info(self, text: str, *arguments: object) -> None:
        self._say(logging.INFO, text, arguments)

    def warning(self, text: str, *arguments: object) -> None:
        self._say(logging.WARNING, text, arguments)

    def error(self, text: str, *arguments: object) -> None:
        self._say(logging.ERROR, text, arguments)

    def _say(self, level: int, text: str, arguments: tuple[object, ...]) -> None:
        if not self._log.isEnabledFor(level):
            return
        line = text % arguments
        if self._may_write():
            self._write(level, line)
        else:
            self._left_out += 1
            self._last = level, line

    def settle(self) -> None:
        """Writes the last line that was left out, if there is one and it is time."""
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


# The time of a log line: RFC 3339, UTC, with milliseconds, whichever log it is in.
_SECONDS = "%Y-%m-%dT%H:%M:%S"


class LineFormatter(logging.Formatter):
    """Formats the records of Python's logging with the time as LogClock has it."""

    converter = staticmethod(time.gmtime)
    default_time_format = _SECONDS
    default_msec_format = "%s.%03dZ"


class LogClock:
    """The wall clock in RFC 3339 with milliseconds. Texts are made once: of a second, of each fraction, and
    of the moment, which many requests share on a busy gateway.
    """

    def __init__(self) -> None:
        self._second = 0
        self._text = ""
        self._fractions = [f".{millisecond:03d}Z" for millisecond in range(1000)]
        self._moment = ""
        self._stale_at = 0.0

    def at(self, loop_time: float) -> str:
        """The time now; `loop_time` is the loop's, in seconds."""
        if loop_time >= self._stale_at:
            self._stale_at = loop_time + 0.001
            self._moment = self._read()
        return self._moment

    def _read(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._text = time.strftime(_SECONDS, time.gmtime(second))
        return self._text + self._fractions[int((now - second) * 1000)]
