"""Standard input, output and error of a command: pipes, or a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import socket
import struct
import termios
from typing import Protocol

from headgate.node import processes

_READ_BYTES = 32 << 10


class Ends(Protocol):
    """Our ends, which do not block, and those of the command. Must be closed."""

    theirs: processes.Stdio
    stdin: int
    """Negative if the command reads nothing."""
    outputs: dict[str, int]
    """By the kind of their stream."""

    def end_input(self) -> None:
        """Tell the command that there is no further input."""

    def resize(self, width: int, height: int) -> None: ...

    def close(self) -> None: ...


class _Theirs:
    """The command's ends, which may be the same file."""

    def __init__(self, stdout: int, stderr: int, stdin: int | None = None) -> None:
        self.stdout, self.stderr, self.stdin = stdout, stderr, stdin
        self._open = {stdout, stderr} if stdin is None else {stdout, stderr, stdin}

    def given(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def close(self) -> None:
        self.given()


class Pipes:
    """A pipe each for input, output and errors. Raises OSError if there are no descriptors."""

    def __init__(self, *, has_input: bool) -> None:
        self.stdin = -1
        self.outputs: dict[str, int] = {}
        theirs: list[int] = []
        try:
            for kind in ("stdout", "stderr"):
                self.outputs[kind], end = os.pipe()
                theirs.append(end)
            if has_input:
                end, self.stdin = os.pipe()
                theirs.append(end)
        except OSError:
            for end in theirs:
                os.close(end)
            self.close()
            raise
        self.theirs: processes.Stdio = _Theirs(*theirs)
        for ours in self._ours():
            os.set_blocking(ours, False)

    def end_input(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def resize(self, width: int, height: int) -> None:
        """Pipes have no size."""

    def close(self) -> None:
        for ours in self._ours():
            os.close(ours)
        self.stdin = -1
        self.outputs.clear()

    def _ours(self) -> list[int]:
        return [end for end in (self.stdin, *self.outputs.values()) if end >= 0]


class Terminal:
    """A terminal, which is input, output and errors. Raises OSError if there is none left."""

    def __init__(self) -> None:
        self.stdin, theirs = pty.openpty()
        os.set_blocking(self.stdin, False)
        self.outputs = {"stdout": self.stdin}
        self.theirs: processes.Stdio = _Theirs(theirs, theirs, theirs)

    def end_input(self) -> None:
        """A terminal stays open: what its user types ends the command."""

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.stdin, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def close(self) -> None:
        os.close(self.stdin)


async def read(end: int) -> bytes:
    """The next output; empty at the end."""
    while True:
        try:
            return os.read(end, _READ_BYTES)
        except BlockingIOError:
            await ready(end)
        except OSError:  # a terminal that nobody has open any more
            return b""


async def write(end: int, data: bytes) -> None:
    """Raises OSError if nobody reads any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(end, view) :]
        except BlockingIOError:
            await ready(end, writes=True)


async def ready(file: int | socket.socket, *, writes: bool = False) -> None:
    """Wait until a file can be read, or with `writes`, written."""
    loop = asyncio.get_running_loop()
    became: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not became.done():
            became.set_result(None)

    (loop.add_writer if writes else loop.add_reader)(file, tell)
    try:
        await became
    finally:
        (loop.remove_writer if writes else loop.remove_reader)(file)
