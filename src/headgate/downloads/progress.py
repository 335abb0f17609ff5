"""How far a download is: counted by its threads, and shown in log lines and status files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec


class Snapshot(msgspec.Struct, frozen=True):
    """As in status files and with `--output json`."""

    phase: str
    """Waiting, Listing, Downloading, Complete or Failed."""
    bytes_done: int = 0
    bytes_total: int = 0
    files_done: int = 0
    files_total: int = 0
    bytes_per_s: float = 0.0
    """Since the download began to receive."""
    retries: int = 0
    problem: str = ""
    """Why the last request failed, until something is received again."""
    waiting_for: str = ""
    """The process that downloads for this one."""

    @property
    def percent(self) -> float:
        return 100.0 * self.bytes_done / self.bytes_total if self.bytes_total else 0.0

    def complete(self) -> Snapshot:
        return msgspec.structs.replace(self, phase="Complete")


Report = Callable[[Snapshot], None]
"""Called several times per second, from one thread."""


class Progress:
    """Counts what several threads do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phase = "Listing"
        self._bytes = [0, 0]
        self._files = [0, 0]
        self._received = 0
        self._retries = 0
        self._problem = ""
        self._started = time.monotonic()

    def begin(self, bytes_done: int, bytes_total: int, files_done: int, files_total: int) -> None:
        with self._lock:
            self._phase, self._started, self._received = "Downloading", time.monotonic(), 0
            self._problem = ""
            self._bytes, self._files = [bytes_done, bytes_total], [files_done, files_total]

    def received(self, count: int) -> None:
        with self._lock:
            self._bytes[0] += count
            self._received += count
            self._problem = ""

    def lost(self, count: int) -> None:
        """Bytes that have to be received once more."""
        with self._lock:
            self._bytes[0] -= count

    def finished_file(self) -> None:
        with self._lock:
            self._files[0] += 1

    def retried(self, problem: str) -> None:
        with self._lock:
            self._retries += 1
            self._problem = problem

    def snapshot(self) -> Snapshot:
        with self._lock:
            elapsed_s = time.monotonic() - self._started
            rate = self._received / elapsed_s if elapsed_s > 0.5 else 0.0
            return Snapshot(
                phase=self._phase,
                bytes_done=self._bytes[0],
                bytes_total=self._bytes[1],
                files_done=self._files[0],
                files_total=self._files[1],
                bytes_per_s=round(rate, 1),
                retries=self._retries,
                problem=self._problem,
            )
