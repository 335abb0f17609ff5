"""Start the processes of one machine, restart those that fail, and stop them in order."""

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from headgate.cli import machine_state

FIRST_RESTART_S = 0.5
LONGEST_RESTART_S = 30.0
STEADY_AFTER_S = 60.0
"""A process that ran this long before it failed is restarted with the shortest delay again."""

MAX_LOG_BYTES = 32 * 1024 * 1024
"""A longer log is emptied; its last MAX_LOG_BYTES, and as many written during the copy, go to NAME.log.1."""
LOG_CHECK_S = 1.0
_COPY_BYTES = 1024 * 1024

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_PR_SET_PDEATHSIG = 1


class StateInUse(Exception):  # noqa: N818 - reads as what it says
    """Another supervisor uses the same state directory."""


class StateUnusable(Exception):  # noqa: N818 - reads as what it says
    """The state directory cannot be created or written."""


class Child:
    """One supervised process; restarted whenever it ends without being stopped."""

    def __init__(
        self, name: str, argv: Sequence[str], log_path: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment`: variables besides those of this process."""
        self.name = name
        self.argv = list(argv)
        self._environment = {**os.environ, **(environment or {})}
        self.log_path = log_path
        self._log_began = log_path.stat().st_size if log_path.exists() else 0
        """Where this run's log lines begin."""
        self.restarts = 0
        self.process: asyncio.subprocess.Process | None = None
        self._stop = asyncio.Event()

    async def run(self, on_restart: Callable[["Child", int], None]) -> None:
        """Run until `stop`; calls `on_restart` with the exit code after every unexpected exit."""
        delay_s = FIRST_RESTART_S
        while not self._stop.is_set():
            started = time.monotonic()
            with self._open_log() as log:
                self.process = await asyncio.create_subprocess_exec(
                    *self.argv,
                    env=self._environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C reaches only the supervisor, which stops all in order
                    preexec_fn=_end_with_parent,
                )
            if self._stop.is_set():
                self.process.terminate()  # it was stopped while it was being started
            code = await self._until_ended(self.process)
            if self._stop.is_set():
                return
            if time.monotonic() - started > STEADY_AFTER_S:
                delay_s = FIRST_RESTART_S
            self.restarts += 1
            on_restart(self, code)
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, LONGEST_RESTART_S)

    async def _until_ended(self, process: asyncio.subprocess.Process) -> int:
        """Wait for the process, and keep its log short meanwhile."""
        ended = asyncio.ensure_future(process.wait())
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=LOG_CHECK_S)
                await asyncio.to_thread(shorten, self.log_path)
        finally:
            ended.cancel()
        return ended.result()

    async def stop(self, grace_s: float) -> bool:
        """Send SIGTERM, then SIGKILL after `grace_s` seconds. Returns whether it ended by itself."""
        self._stop.set()
        process = self.process
        if process is None or process.returncode is not None:
            return True
        process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
            return True
        except TimeoutError:
            process.kill()
            await process.wait()
            return False

    def kill(self) -> None:
        self._stop.set()
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    def last_lines(self, count: int) -> list[str]:
        """The last lines of its log, for an error message."""
        with contextlib.suppress(OSError), self.log_path.open("rb") as log:
            size = self.log_path.stat().st_size
            own = self._log_began if self._log_began <= size else 0  # it was shortened meanwhile
            log.seek(max(own, size - 16 * 1024))
            return log.read().decode(errors="replace").splitlines()[-count:]
        return []

    def _open_log(self) -> IO[bytes]:
        shorten(self.log_path)
        return self.log_path.open("ab")


def shorten(log: Path) -> None:
    """Move an oversized log to NAME.log.1 and empty it, while its process keeps writing.

    The process has opened the file for appending, so it continues at the new end. Lines written between the
    copy and the truncation, a few at most, are lost.
    """
    with contextlib.suppress(OSError):
        if log.stat().st_size <= MAX_LOG_BYTES:
            return
        with contextlib.suppress(OSError):  # on a full disk, emptying it is even more important
            _copy_end(log, log.with_suffix(".log.1"))
        os.truncate(log, 0)


def _copy_end(log: Path, aside: Path) -> None:
    with log.open("rb") as source, aside.open("wb") as target:
        source.seek(max(0, log.stat().st_size - MAX_LOG_BYTES))
        source.readline(_COPY_BYTES)  # start with a complete line, unless lines are extremely long
        left = 2 * MAX_LOG_BYTES
        while left > 0 and (data := source.read(min(left, _COPY_BYTES))):
            left -= target.write(data)


def _end_with_parent() -> None:
    """Ask Linux to send SIGTERM when the supervisor dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def make_state(state: Path) -> None:
    """Create a state directory that only its owner may read. Raises StateUnusable."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unusable("make", state, error) from error


def no_space(state: Path) -> str:
    return f"no space left in {state}; free some, or choose another directory with --state"


def _unusable(what: str, state: Path, error: OSError) -> StateUnusable:
    if error.errno in NO_SPACE:
        return StateUnusable(no_space(state))
    return StateUnusable(
        f"cannot {what} the state directory {state}: {error.strerror}; choose another with --state or "
        f"{machine_state.STATE_VARIABLE}"
    )


def lock_state(state: Path) -> int:
    """Lock the state directory for this process; the lock ends with the process.

    Raises StateInUse or StateUnusable.
    """
    make_state(state)
    try:
        fd = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable("write to", state, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise StateInUse(
            f"another `headgate up` is running in {state}; stop it, or give this one a --state of its own"
        ) from None
    return fd
