"""Hands spans to the process that exports them, without ever waiting for it or for a collector."""

from __future__ import annotations

import logging
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from headgate.telemetry.tracing import counts
from headgate.telemetry.tracing.span import ExportSettings, FinishedTrace

log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "headgate.telemetry.tracing.exporter")
BUFFER_BYTES: Final = 1 << 20
"""Spans on their way to the process, as far as the system allows so much."""
RESTART_S: Final = 5.0
"""Least time between two starts of the process."""
CLOSE_S: Final = 2.0


class SpanSender:
    """Owns the exporting process. A trace that the process cannot take at once is dropped and counted.

    `send` and `statistics` are for one thread.
    """

    def __init__(self, settings: ExportSettings, now: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._now = now
        self._encode = msgspec.msgpack.Encoder().encode
        self._memory = os.memfd_create("headgate-spans")
        os.ftruncate(self._memory, counts.SIZE)
        self._counts = mmap.mmap(self._memory, counts.SIZE)
        self._sent = self._dropped = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        """None while there is no process."""
        self._started_at = now()
        self._starting: threading.Thread | None = None
        self._start()

    def send(self, trace: FinishedTrace) -> None:
        """Hand over the spans of a request, or drop them."""
        if self._socket is None:
            self._dropped += len(trace.spans)
            self._restart()
            return
        try:
            self._socket.send(self._encode(trace), socket.MSG_DONTWAIT)
            self._sent += len(trace.spans)
        except OSError as error:
            self._dropped += len(trace.spans)
            if isinstance(error, BrokenPipeError | ConnectionError):
                self._lost()

    def statistics(self) -> dict[str, int]:
        """Spans so far, by what became of them; `waiting` may include some that a dead process lost."""
        found = counts.read(self._counts)
        ended = found.exported + found.failed + found.dropped
        return {
            "exported": found.exported,
            "failed": found.failed,
            "dropped": found.dropped + self._dropped,
            "waiting": max(self._sent - ended, 0),
        }

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Let the process export what it has, for at most `timeout_s` seconds; blocks. Beyond that, the
        process ends by itself."""
        if self._starting is not None:
            self._starting.join(timeout_s)
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)

    def _start(self) -> None:
        """May be called on another thread; `_socket` is set last."""
        from headgate import helper_process  # and with it schemas, which gateways do without

        arguments = [msgspec.json.encode(self._settings).decode()]
        try:
            self._process, ours = helper_process.start(
                COMMAND, [self._memory], arguments, kind=socket.SOCK_SEQPACKET
            )
        except OSError as error:
            log.error("traces are dropped: their exporting process cannot be started: %s", error)
            return
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._socket = ours

    def _lost(self) -> None:
        """The process has ended: its spans are lost, and another one is started."""
        assert self._socket is not None
        self._socket.close()
        self._socket = None
        code = self._process.poll() if self._process is not None else None
        log.warning("the process that exports traces has ended (exit code %s), and is started again", code)
        found = counts.read(self._counts)
        lost = self._sent - found.exported - found.failed - found.dropped
        self._dropped += max(lost, 0)
        self._sent -= max(lost, 0)
        self._restart()

    def _restart(self) -> None:
        now = self._now()
        is_starting = self._starting is not None and self._starting.is_alive()
        if is_starting or now - self._started_at < RESTART_S:
            return
        self._started_at = now
        if self._process is not None:
            self._process.poll()
        # Starting a process takes milliseconds, for which no request should wait.
        self._starting = threading.Thread(target=self._start, name="span-exporter-start", daemon=True)
        self._starting.start()
