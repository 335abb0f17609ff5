"""Runs a container as a local process under a launcher, with its output in a log file."""

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


class OutputWriter(Protocol):
    """Takes the output of a process, with the time when it was read, in seconds of Unix time."""

    def write(self, data: bytes, wall_s: float) -> None: ...

    def close(self, wall_s: float) -> None: ...


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
        output: "_Output",
        runner: "ProcessRunner",
    ) -> None:
        self.pid = pid
        self._token = token
        self._launcher = launcher
        self._control = control
        self._output = output
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
            self._output.close()
            self._runner.ended(self.pid)
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

    async def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        working_dir: str,
        writer: OutputWriter,
        what: str,
        mounts: Mounts = Mounts(),  # noqa: B008 - frozen
    ) -> Process:
        """Run a command with its output going to `writer`, which is always closed. Raises StartError."""
        token = secrets.token_hex(8)
        variables = {**environment, "PATH": _search_path(environment), records.TOKEN: token}
        try:
            program = _found(command[0], variables["PATH"], working_dir, mounts)
        except StartError as error:
            writer.write(f"{error}\n".encode(), time.time())
            writer.close(time.time())
            raise
        try:
            output = await _Output.open(writer)
        except OSError as error:
            writer.close(time.time())
            raise StartError(f"cannot start {program}: no pipe for its output: {error}") from error
        try:
            launcher, control = await _launch([program, *command[1:]], output, variables, working_dir, mounts)
        except BaseException as error:
            output.close()
            if isinstance(error, (OSError, ValueError)):
                raise StartError(f"cannot start {program}: {error}") from error
            raise
        try:
            output.close_write_end()
            pid = await _program(control)
        except BaseException as error:
            control.close()
            await _until_ended(launcher)
            output.close()
            if isinstance(error, (OSError, ValueError)):
                raise StartError(f"cannot start {program}: {error}") from error
            raise
        self._records.add(pid, token, what)
        self._running.add(pid)
        self._started += 1
        return Process(pid, token, launcher, control, output, self)

    def end_leftovers(self) -> list[records.Record]:
        """End processes left running by an earlier node with the same state directory."""
        return self._records.end_leftovers()

    def ended(self, pid: int) -> None:
        self._records.remove(pid)
        self._running.discard(pid)

    def statistics(self) -> ProcessStatistics:
        return ProcessStatistics(len(self._running), self._started)


class _Output(asyncio.Protocol):
    """Copies the output of a process to its log file.

    The pipe belongs to this class, not to the subprocess transport: a grandchild that keeps it open must not
    delay the notice that the process has ended.
    """

    def __init__(self, writer: OutputWriter, read_end: int, write_end: int) -> None:
        self._writer: OutputWriter | None = writer
        self._read_end = read_end
        self.write_end = write_end
        self._transport: asyncio.ReadTransport | None = None

    @classmethod
    async def open(cls, writer: OutputWriter) -> "_Output":
        read_end, write_end = os.pipe()
        output = cls(writer, read_end, write_end)
        loop = asyncio.get_running_loop()
        output._transport, _ = await loop.connect_read_pipe(lambda: output, os.fdopen(read_end, "rb", 0))
        return output

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

    def close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Read what is in the pipe, then close it."""
        self.close_write_end()
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


def _search_path(environment: Mapping[str, str]) -> str:
    """PATH with the node's installation first, for `headgate`, `python` and `python3`."""
    own = str(Path(sys.executable).parent)
    return os.pathsep.join([own, environment.get("PATH") or os.defpath])


def _found(program: str, search_path: str, working_dir: str, mounts: Mounts) -> str:
    if working_dir and not mounts.real and not Path(working_dir).is_dir():
        raise StartError(f"workingDir {working_dir!r} is not a directory on this machine")
    if os.sep in program:
        path = Path(mounts.on_machine(str(Path(working_dir or ".", program))))
        if not os.access(path, os.X_OK) or path.is_dir():
            raise StartError(f"command {program!r} is not an executable file on this machine")
        return program
    found = shutil.which(program, path=search_path)
    if found is None:
        raise StartError(f"command {program!r} is not found in PATH={search_path}")
    return found


async def _launch(
    command: Sequence[str],
    output: _Output,
    variables: Mapping[str, str],
    working_dir: str,
    mounts: Mounts,
) -> tuple[asyncio.subprocess.Process, socket.socket]:
    """A launcher and its socket. Raises OSError and ValueError."""
    directory = ["--directory", working_dir] if working_dir else []
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            launcher = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(LAUNCHER)),
                *(*mounts.options(), *directory, "--", *command),
                stdin=theirs.fileno(),
                stdout=output.write_end,
                stderr=output.write_end,
                env=variables,
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
    """Wait for the launcher, which ends after its descendants once its socket is closed."""
    try:
        async with asyncio.timeout(_END_S):
            await launcher.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            launcher.kill()
        await launcher.wait()
