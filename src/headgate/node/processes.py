"""Runs a container as a local process: a session of its own, output in a log file, ended with the node."""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headgate.node import log_files, records

log = logging.getLogger(__name__)

_LAUNCHER = Path(__file__).with_name("launcher.py")
_READ_BYTES = 64 << 10


class StartError(Exception):
    """The program could not be started; the message says what was looked for and where."""


@dataclass(frozen=True)
class Exit:
    """How a process ended: its exit code, or the signal that ended it (then the code is 128 + signal)."""

    code: int
    signal: int | None = None


@dataclass(frozen=True)
class ProcessStatistics:
    running: int
    started_total: int


class RunningContainer(Protocol):
    """What a Pod's worker needs of a running container, be it a process here or a server elsewhere."""

    @property
    def container_id(self) -> str: ...

    def send(self, signal_number: signal.Signals) -> None: ...

    async def wait(self) -> Exit: ...


class Process:
    """A started program. Its owner must await `wait`, which reaps the process and cleans up behind it."""

    def __init__(
        self, process: asyncio.subprocess.Process, output: "_Output", runner: "ProcessRunner"
    ) -> None:
        self._process = process
        self._output = output
        self._runner = runner

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def container_id(self) -> str:
        return f"process://{self.pid}"

    def send(self, signal_number: signal.Signals) -> None:
        """Signal the whole group; nothing happens if it is gone."""
        if self._process.returncode is None:
            _signal_group(self.pid, signal_number)

    async def wait(self) -> Exit:
        """Until the program ends. What it had started in its group ends with it, as in a container."""
        try:
            code = await self._process.wait()
        finally:
            _signal_group(self.pid, signal.SIGKILL)
            self._output.close()
            self._runner.ended(self.pid)
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
        writer: log_files.LogWriter,
        what: str,
    ) -> Process:
        """Run a command with its output going to `writer`, which is closed in any case. Raises StartError."""
        token = secrets.token_hex(8)
        variables = {**environment, "PATH": _search_path(environment), records.TOKEN: token}
        try:
            program = _found(command[0], variables["PATH"], working_dir)
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
            process = await asyncio.create_subprocess_exec(
                *_launched(program, command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.write_end,
                stderr=output.write_end,
                env=variables,
                cwd=working_dir or None,
                start_new_session=True,
            )
        except BaseException as error:
            output.close()
            if isinstance(error, (OSError, ValueError)):
                raise StartError(f"cannot start {program}: {error}") from error
            raise
        output.close_write_end()
        self._records.add(process.pid, token, what)
        self._running.add(process.pid)
        self._started += 1
        return Process(process, output, self)

    def end_leftovers(self) -> list[records.Record]:
        """End what an earlier node on the same state directory left running."""
        return self._records.end_leftovers()

    def ended(self, pid: int) -> None:
        self._records.remove(pid)
        self._running.discard(pid)

    def statistics(self) -> ProcessStatistics:
        return ProcessStatistics(len(self._running), self._started)


class _Output(asyncio.Protocol):
    """Carries what a process writes into its log file.

    The pipe is ours and not the subprocess transport's: a grandchild that holds it open must not delay the
    news that the process has ended.
    """

    def __init__(self, writer: log_files.LogWriter, read_end: int, write_end: int) -> None:
        self._writer: log_files.LogWriter | None = writer
        self._read_end = read_end
        self.write_end = write_end
        self._transport: asyncio.ReadTransport | None = None

    @classmethod
    async def open(cls, writer: log_files.LogWriter) -> "_Output":
        read_end, write_end = os.pipe()
        output = cls(writer, read_end, write_end)
        loop = asyncio.get_running_loop()
        output._transport, _ = await loop.connect_read_pipe(lambda: output, os.fdopen(read_end, "rb", 0))
        return output

    def data_received(self, data: bytes) -> None:
        if self._writer is None:
            return
        try:
            self._writer.write(data, time.time())
        except OSError as error:
            # A full disk must not stop the engine: its pipe is read on, into nothing.
            log.warning("the output of a container is lost from here on: %s", error)
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._finish()

    def close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Take what is in the pipe by now, then close it."""
        self.close_write_end()
        transport, self._transport = self._transport, None
        if transport is None or transport.is_closing():
            return
        self._drain()
        transport.close()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            # Bounded: someone who holds the pipe open could write for ever.
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
    """`headgate`, `python` and `python3` mean the installation that runs the node: it comes first."""
    own = str(Path(sys.executable).parent)
    return os.pathsep.join([own, environment.get("PATH") or os.defpath])


def _found(program: str, search_path: str, working_dir: str) -> str:
    if working_dir and not Path(working_dir).is_dir():
        raise StartError(f"workingDir {working_dir!r} is not a directory on this machine")
    if os.sep in program:
        path = Path(working_dir or ".", program)
        if not os.access(path, os.X_OK) or path.is_dir():
            raise StartError(f"command {program!r} is not an executable file on this machine")
        return program
    found = shutil.which(program, path=search_path)
    if found is None:
        raise StartError(f"command {program!r} is not found in PATH={search_path}")
    return found


def _launched(program: str, command: Sequence[str]) -> list[str]:
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())]
    return [*launcher, program, *command[1:]]


def _signal_group(group: int, signal_number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)
