"""Log files of containers: lines with their arrival time, in a bounded pair of files for each run.

A run (one start of a container) writes `<run>.log`; when that is full, it becomes `<run>.log.1`, replacing
the previous one. The files of the previous run are kept for `kubectl logs --previous`; older ones are
removed.
"""

import glob
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headgate.kubeschema import timestamps

MAX_FILE_BYTES = 8 << 20
MAX_LINE_BYTES = 16 << 10
"""Longer lines are split, as container runtimes do."""


@dataclass(frozen=True)
class LogFile:
    """The two files of one run."""

    current: Path

    @property
    def rotated(self) -> Path:
        return self.current.with_name(self.current.name + ".1")


class LogDirectory:
    """Finds the files of a container's runs: `<root>/<namespace>_<pod>_<uid>/<container>/<run>.log`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._live: set[LogFile] = set()

    def pod(self, namespace: str, pod: str, uid: str) -> Path:
        return self._root / f"{namespace}_{pod}_{uid}"

    def pods(self) -> list[Path]:
        """The directories of all Pods that have logs."""
        return [path for path in self._root.glob("*_*_*") if path.is_dir()]

    def open_run(self, directory: Path, run: int) -> "LogWriter":
        """A writer for a new run; of earlier runs, only the last is kept."""
        directory.mkdir(parents=True, exist_ok=True)
        for old in _runs(directory)[:-1]:
            _remove(_log_file(directory, old))
        file = _log_file(directory, run)
        _remove(file)
        self._live.add(file)
        return LogWriter(file, lambda: self._live.discard(file))

    def run(self, directory: Path, run: int) -> LogFile:
        """The files of one run."""
        return _log_file(directory, run)

    def is_live(self, file: LogFile) -> bool:
        """Whether a run is still writing to it."""
        return file in self._live

    def newest(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> LogFile | None:
        """The files of the newest run of the newest Pod of this name, or of the run before; None if none."""
        name = glob.escape(f"{namespace}_{pod}_") + "*"
        pods = sorted(
            self._root.glob(f"{name}/{glob.escape(container)}"), key=lambda path: path.stat().st_mtime
        )
        if not pods:
            return None
        wanted = _runs(pods[-1])[: -1 if previous else None]
        return _log_file(pods[-1], wanted[-1]) if wanted else None

    def forget(self, directory: Path) -> None:
        """Remove the logs of a deleted Pod."""
        for container in directory.glob("*"):
            for file in container.glob("*"):
                file.unlink(missing_ok=True)
            container.rmdir()
        if directory.is_dir():
            directory.rmdir()


class LogWriter:
    """Splits output into lines and writes each with its time."""

    def __init__(
        self,
        file: LogFile,
        closed: Callable[[], None] = lambda: None,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._file = file
        self._closed = closed
        self._max_file_bytes = max_file_bytes
        self._out: BinaryIO = file.current.open("ab", buffering=0)
        self._size = 0
        self._rest = b""

    def write(self, data: bytes, wall_s: float) -> None:
        """Write output read at `wall_s`, in seconds of Unix time."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > MAX_LINE_BYTES:
            lines.append(self._rest[:MAX_LINE_BYTES])
            self._rest = self._rest[MAX_LINE_BYTES:]
        self._put(lines, wall_s)

    def close(self, wall_s: float) -> None:
        """Write an incomplete last line, and close the file."""
        if self._rest:
            self._put([self._rest], wall_s)
            self._rest = b""
        self._out.close()
        self._closed()

    def _put(self, lines: list[bytes], wall_s: float) -> None:
        if not lines:
            return
        stamp = timestamps.nanoseconds(wall_s).encode() + b" "
        block = b"".join(stamp + part + b"\n" for line in lines for part in _cut(line))
        if self._size + len(block) > self._max_file_bytes and self._size:
            self._rotate()
        self._out.write(block)
        self._size += len(block)

    def _rotate(self) -> None:
        self._out.close()
        self._file.current.replace(self._file.rotated)
        self._out = self._file.current.open("ab", buffering=0)
        self._size = 0


def _cut(line: bytes) -> Iterator[bytes]:
    yield line[:MAX_LINE_BYTES]
    for start in range(MAX_LINE_BYTES, len(line), MAX_LINE_BYTES):
        yield line[start : start + MAX_LINE_BYTES]


def _runs(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log") if path.stem.isdigit())


def _log_file(directory: Path, run: int) -> LogFile:
    return LogFile(directory / f"{run}.log")


def _remove(file: LogFile) -> None:
    file.current.unlink(missing_ok=True)
    file.rotated.unlink(missing_ok=True)
