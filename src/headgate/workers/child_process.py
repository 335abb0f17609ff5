"""A child process, whose end is awaited through a descriptor."""

from __future__ import annotations

import asyncio
import os
import signal


class ChildProcess:
    """One child process, from its start until `release`."""

    def __init__(self, pid: int) -> None:
        """Raises OSError."""
        self.pid = pid
        self.ended = asyncio.Event()
        """Set once it has ended and all that it reported was read."""
        self._status: int | None = None
        """From waitpid."""
        self._pidfd = os.pidfd_open(pid)

    async def wait(self, limit_s: float | None = None) -> bool:
        """Wait until it ends, and collect its status; False if that takes longer than `limit_s`."""
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(self._pidfd, gone.set)
        try:
            async with asyncio.timeout(limit_s):
                await gone.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._pidfd)
        _, self._status = os.waitpid(self.pid, 0)  # noqa: ASYNC222 - it has ended
        return True

    def kill(self) -> None:
        if not self.ended.is_set():
            os.kill(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Close its descriptor: nobody waits for it any more."""
        os.close(self._pidfd)
        self.ended.set()

    @property
    def end(self) -> str:
        """How it ended, in words."""
        if self._status is None:
            return "has not ended"
        if os.WIFSIGNALED(self._status):
            return f"was ended by {signal.Signals(os.WTERMSIG(self._status)).name}"
        return f"ended with {os.waitstatus_to_exitcode(self._status)}"
