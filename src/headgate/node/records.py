"""Records of the processes that a node started, so that the next node can end those of a killed one.

`kill -9` of the node ends its processes and everything they started, see `launcher`. If the launchers were
killed as well, the records tell the next node what to end. A record identifies a process group by its
leader's process ID. That may have been reused, so a group is ended only if its leader has the recorded start
time, or a member has the run's token in its environment. Processes outside the group are found by the token
alone.
"""

import contextlib
import logging
import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

TOKEN = "HEADGATE_RUN"  # noqa: S105 - the name of a variable
_WAIT_S = 2.0


class Record(msgspec.Struct, frozen=True):
    """A process started by a node, the leader of its session and group."""

    pid: int
    started: str
    """The start time as the system reports it; only compared."""
    token: str
    """Value of HEADGATE_RUN in its environment, unique to this run."""
    what: str
    """Namespace, Pod and container, for messages."""


class Records:
    """One file for each running process."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory

    def add(self, pid: int, token: str, what: str) -> None:
        record = Record(pid, start_time(pid) or "", token, what)
        path = self._path(pid)
        # Renamed into place, because a kill at this point would leave half a record.
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(record))
        temporary.replace(path)

    def remove(self, pid: int) -> None:
        self._path(pid).unlink(missing_ok=True)

    def end_leftovers(self) -> list[Record]:
        """Kill the processes of a killed node; returns those found. Blocks up to 2 s for each."""
        ended = []
        for path in self._directory.glob("*.json"):
            record = _read(path)
            if record is not None and _is_ours(record):
                log.warning(
                    "ending process group %d of %s, left by a node that was killed", record.pid, record.what
                )
                _end_group(record.pid)
                ended.append(record)
            if record is not None:
                end_marked(record.token)
            path.unlink(missing_ok=True)
        return ended

    def _path(self, pid: int) -> Path:
        return self._directory / f"{pid}.json"


def start_time(pid: int) -> str | None:
    """The start time of a process as the system reports it; None if it is gone or a zombie."""
    stat = _stat(pid)
    if stat is not None:
        return None if stat[0] in ("Z", "X") else stat[19]
    if Path("/proc/self/stat").exists():
        return None
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return answer.stdout.strip() or None


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; the name before it may contain anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _is_ours(record: Record) -> bool:
    if record.started and start_time(record.pid) == record.started:
        return True
    marker = f"{TOKEN}={record.token}".encode()
    return any(marker in _environment(pid) for pid in _members(record.pid))


def end_marked(token: str) -> None:
    """Kill every process with a run's token in its environment, and wait until they are gone."""
    marker = f"{TOKEN}={token}".encode()
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        marked = [pid for pid in _processes() if marker in _environment(pid) and start_time(pid) is not None]
        if not marked:
            return
        for pid in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _processes() -> list[int]:
    """All processes, if there is a /proc."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _members(group: int) -> list[int]:
    """The processes of a group, if there is a /proc."""
    return [pid for pid in _processes() if (stat := _stat(pid)) is not None and stat[2] == str(group)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _end_group(group: int) -> None:
    """Kill a group and wait until it is gone, because its successors need its ports."""
    deadline = time.monotonic() + _WAIT_S
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.01)


def _read(path: Path) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("the process record %s is unreadable: %s", path, error)
        return None
