"""Runs programs as local processes under a launcher: containers, and commands beside them."""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headgate.node import records
from headgate.node.mounts import LAUNCHER, Mounts

log = logging.getLogger(__name__)

_READ_BYTES = 64 << 10
_REST_FACTOR = 4.0
"""How much longer output is left unread than the last write to the log took: a program that never stops
writing gets a fifth of the node's time, and has to wait.
"""
_REST_FROM_S = 0.0002
_START_S = 60.0
"""Maximum time until a launcher has started its program; only turns a hang into an error."""
_END_S = 15.0
_NUMBER_BYTES = 4
"""Size of the launcher's messages: the program's process ID, and its status."""
_REASON_BYTES = 1024


class StartError(Exception):
    """The program could not be started; the message says what was searched for and where."""


@dataclass(frozen=True)
class Exit:
    """How a process ended: its exit code, or the signal (then the code is 128 + signal)."""

    code: int
    signal: int | None = None


@dataclass(frozen=True)
class ProcessStatistics:
    running: int
    started_total: int


@dataclass(frozen=True)
class Program:
    """What a process runs, and where."""

    command: Sequence[str]
    variables: Mapping[str, str]
    working_dir: str = ""
    mounts: Mounts = Mounts()  # noqa: RUF009 - frozen

    @property
    def environment(self) -> dict[str, str]:
        """The variables, with the node's installation first in PATH, for `headgate`, `python` and
        `python3`."""
        own = str(Path(sys.executable).parent)
        path = os.pathsep.join([own, self.variables.get("PATH") or os.defpath])
        return {**self.variables, "PATH": path}


class OutputWriter(Protocol):
    """Takes the output of a process, with the time when it was read, in seconds of Unix time."""

    def write(self, data: bytes, wall_s: float) -> None: ...

    def close(self, wall_s: float) -> None: ...


class Stdio(Protocol):
    """Descriptors that become a process's standard input, output and error."""

    @property
    def stdin(self) -> int | None:
        """None if there is nothing to read."""

    @property
    def stdout(self) -> int: ...

    @property
    def stderr(self) -> int: ...

    def given(self) -> None:
        """The process has its descriptors: close them here."""

    def close(self) -> None:
        """The process has ended, or could not be started."""


class RunningContainer(Protocol):
    """A running container for its Pod's worker: a local process or an external server."""

    @property
    def container_id(self) -> str: ...

    def send(self, signal_number: signal.Signals) -> None: ...

    async def wait(self) -> Exit: ...


class Process:
    """A started program. Its owner must await `wait`, which reaps the process and cleans up."""

    def __init__(
        self,
        pid: int,
        token: str,
        launcher: asyncio.subprocess.Process,
        control: socket.socket,
        stdio: Stdio,
        runner: "ProcessRunner",
    ) -> None:
        self.pid = pid
        self.ended = asyncio.Event()
        self._token = token
        self._launcher = launcher
        self._control = control
        self._stdio = stdio
        self._runner = runner

    @property
    def container_id(self) -> str:
        return f"process://{self.pid}"

    def send(self, signal_number: signal.Signals) -> None:
        """Signal the whole group; does nothing if it is gone."""
        with contextlib.suppress(OSError):
            self._control.send(bytes([signal_number]))
        if signal_number == signal.SIGKILL:
            # The program may have stopped its launcher, which must be able to read this.
            with contextlib.suppress(ProcessLookupError):
                self._launcher.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    async def wait(self) -> Exit:
        """Wait until the program ends. Everything it started ends with it, as in a container."""
        try:
            await self._launcher.wait()
            status = _status(self._control)
            if status is None:
                await asyncio.to_thread(records.end_marked, self._token)
        except asyncio.CancelledError:
            self._control.close()
            await _until_ended(self._launcher)
            raise
        finally:
            self._control.close()
            self._stdio.close()
            self._runner.ended(self.pid)
            self.ended.set()
        if status is None:  # the launcher was killed, and the program with it
            return Exit(128 + signal.SIGKILL, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(status)
        return Exit(128 - code, -code) if code < 0 else Exit(code)


class ProcessRunner:
    """Starts processes and keeps their records."""

    def __init__(self, directory: Path) -> None:
        self._records = records.Records(directory)
        self._running: set[int] = set()
        self._started = 0

    async def start(self, program: Program, writer: OutputWriter, what: str) -> Process:
        """Run a program with its output going to `writer`, which is always closed. Raises StartError."""
        try:
            path = _found(program)
        except StartError as error:
            writer.write(f"{error}\n".encode(), time.time())
            writer.close(time.time())
            raise
        try:
            output = await _Output.open(writer)
        except OSError as error:
            writer.close(time.time())
            raise StartError(f"cannot start {path}: no pipe for its output: {error}") from error
        return await self._start(path, program, output, what)

    async def start_with(self, program: Program, stdio: Stdio, what: str) -> Process:
        """Run a program with other standard files, which are always closed. Raises StartError."""
        try:
            path = _found(program)
        except StartError:
            stdio.close()
            raise
        return await self._start(path, program, stdio, what)

    async def _start(self, path: str, program: Program, stdio: Stdio, what: str) -> Process:
        token = secrets.token_hex(8)
        try:
            launcher, control = await _launch(path, program, stdio, token)
        except BaseException as error:
            stdio.close()
            if isinstance(error, (OSError, ValueError)):
                raise StartError(f"cannot start {path}: {error}") from error
            raise
        try:
            stdio.given()
            pid = await _program(control)
        except BaseException as error:
            control.close()
            try:
                await _until_ended(launcher)
            finally:
                stdio.close()
            if isinstance(error, (OSError, ValueError)):
                raise StartError(f"cannot start {path}: {error}") from error
            raise
        self._records.add(pid, token, what)
        self._running.add(pid)
        self._started += 1
        return Process(pid, token, launcher, control, stdio, self)

    def end_leftovers(self) -> list[records.Record]:
        """End processes left running by an earlier node with the same state directory."""
        return self._records.end_leftovers()

    def ended(self, pid: int) -> None:
        self._records.remove(pid)
        self._running.discard(pid)

    def statistics(self) -> ProcessStatistics:
        return ProcessStatistics(len(self._running), self._started)


class _Output(asyncio.Protocol):
    """Copies the output of a process, which reads nothing, to its writer.

    The pipe belongs to this class, not to the subprocess transport: a grandchild that keeps it open must not
    delay the notice that the process has ended.
    """

    stdin = None

    def __init__(self, writer: OutputWriter, read_end: int, write_end: int) -> None:
        self._writer: OutputWriter | None = writer
        self._read_end = read_end
        self._write_end = write_end
        self._transport: asyncio.ReadTransport | None = None

    @classmethod
    async def open(cls, writer: OutputWriter) -> "_Output":
        read_end, write_end = os.pipe()
        output = cls(writer, read_end, write_end)
        loop = asyncio.get_running_loop()
        output._transport, _ = await loop.connect_read_pipe(lambda: output, os.fdopen(read_end, "rb", 0))
        return output

    @property
    def stdout(self) -> int:
        return self._write_end

    @property
    def stderr(self) -> int:
        return self._write_end

    def data_received(self, data: bytes) -> None:
        if self._writer is None:
            return
        began = time.perf_counter()
        try:
            self._writer.write(data, time.time())
        except OSError as error:
            # A full disk must not block the engine: keep reading, and discard the output.
            log.warning("discarding further output of a container: %s", error)
            self._finish()
        took_s = time.perf_counter() - began
        if took_s > _REST_FROM_S and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(_REST_FACTOR * took_s, self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._finish()

    def given(self) -> None:
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1

    def close(self) -> None:
        """Read what is in the pipe, then close it."""
        self.given()
        transport, self._transport = self._transport, None
        if transport is not None and not transport.is_closing():
            self._drain()
            transport.close()
        self._finish()  # the loop reports the end of the pipe only in its next iteration

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            # Bounded: a process that keeps the pipe open could write forever.
            for _ in range(64):
                data = os.read(self._read_end, _READ_BYTES)
                if not data:
                    return
                self.data_received(data)

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.close(time.time())


def _found(program: Program) -> str:
    """The path of the program, as it sees it. Raises StartError."""
    if any("\0" in word for word in (*program.command, program.working_dir)):
        raise StartError("the command, an argument or workingDir has a null byte, which no system accepts")
    name, directory, mounts = program.command[0], program.working_dir, program.mounts
    if directory and not mounts.real and not Path(directory).is_dir():
        raise StartError(f"workingDir {directory!r} is not a directory on this machine")
    if os.sep in name:
        path = Path(mounts.on_machine(str(Path(directory or ".", name))))
        if not os.access(path, os.X_OK) or path.is_dir():
            raise StartError(f"command {name!r} is not an executable file on this machine")
        return name
    search_path = program.environment["PATH"]
    found = shutil.which(name, path=search_path)
    if found is None:
        raise StartError(f"command {name!r} is not found in PATH={search_path}")
    return found


async def _launch(
    path: str, program: Program, stdio: Stdio, token: str
) -> tuple[asyncio.subprocess.Process, socket.socket]:
    """A launcher and its socket. Raises OSError and ValueError."""
    options = program.mounts.options()
    if program.working_dir:
        options += ["--directory", program.working_dir]
    if stdio.stdin is not None:
        options += ["--stdin", str(stdio.stdin)]
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            launcher = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(LAUNCHER)),
                *(*options, "--", path, *program.command[1:]),
                stdin=theirs.fileno(),
                stdout=stdio.stdout,
                stderr=stdio.stderr,
                pass_fds=() if stdio.stdin is None else (stdio.stdin,),
                env={**program.environment, records.TOKEN: token},
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return launcher, ours


async def _program(control: socket.socket) -> int:
    """The program's process ID. Raises OSError if the launcher failed."""
    async with asyncio.timeout(_START_S):
        told = await asyncio.get_running_loop().sock_recv(control, _NUMBER_BYTES)
        if told == bytes(_NUMBER_BYTES):
            reason = await asyncio.get_running_loop().sock_recv(control, _REASON_BYTES)
            raise ConnectionError(reason.decode(errors="replace"))
    if len(told) < _NUMBER_BYTES:
        raise ConnectionError("its launcher has ended")
    return int.from_bytes(told)


def _status(control: socket.socket) -> int | None:
    """The program's status, if the launcher reported it."""
    with contextlib.suppress(OSError):
        told = control.recv(_NUMBER_BYTES)
        return int.from_bytes(told) if len(told) == _NUMBER_BYTES else None
    return None


async def _until_ended(launcher: asyncio.subprocess.Process) -> None:
    """Wait for the launcher, which ends after its descendants once its socket is closed.

    A cancellation takes effect after that, so that no process is left behind.
    """
    ending, cancelled = asyncio.create_task(_end(launcher)), None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _end(launcher: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(_END_S):
            await launcher.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            launcher.kill()
        await launcher.wait()
