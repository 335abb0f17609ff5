"""Ends a download early: on a signal, after the first error, or when the lock is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from headgate.downloads.errors import DownloadError, Reason

T = TypeVar("T")
_TICK_S = 0.2


class Halt:
    """Set once, with the error that every part of the download then raises; also while its parent is set."""

    def __init__(self, parent: Halt | None = None) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._error: Exception | None = None

    def set(self, error: Exception | None = None) -> None:
        """End the download with this error; the first one counts."""
        with self._lock:
            self._error = (
                self._error
                or error
                or DownloadError(Reason.INTERRUPTED, "interrupted; what has arrived is kept")
            )
            self._event.set()

    def check(self) -> None:
        """Raise the error if the download is to end."""
        if self._parent is not None:
            self._parent.check()
        if self._event.is_set() and self._error is not None:
            raise self._error

    def wait(self, seconds: float) -> None:
        """Sleep, but no longer than until the download is to end; then raise its error."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._event.wait(min(left, _TICK_S)):
            self.check()
        self.check()

    def unless_set(self, call: Callable[[], T]) -> T:
        """Return what `call` returns, but do not wait for it once the download is to end.

        It is called in another thread, which goes on for a while in that case; so it must not write anything.
        """
        results: list[T] = []
        errors: list[BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                results.append(call())
            except BaseException as error:
                errors.append(error)
            done.set()

        threading.Thread(target=work, daemon=True).start()
        while not done.wait(_TICK_S):
            self.check()
        if errors:
            raise errors[0]
        return results[0]
