"""The processes of `headgate up`, each started, stopped and killed by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

HEADGATE = [sys.executable, "-P", "-m", "headgate"]
START_S = 120.0
STOP_S = 90.0


def wait(holds: Callable[[], object], limit_s: float = START_S) -> None:
    """Polls until something holds."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < limit_s, f"{holds} did not hold within {limit_s} s"
        time.sleep(0.05)


@dataclass
class Pieces:
    """Processes by their name, with a file each for what they print. They start again with the same words."""

    directory: Path
    words: dict[str, list[str]] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *words: object) -> None:
        self.words[name] = [str(each) for each in words] or self.words[name]
        # Variables of the tests are no settings.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADGATE_")}
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*HEADGATE, *self.words[name]],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )

    def stop(self, name: str) -> None:
        """As a supervisor does; asserts that it ends well and in time."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, self.told(name)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        """All of them, in an order in which none misses another."""
        order = ("gateway", "controller", "node", "apiserver")
        for name in sorted(self.running, key=lambda name: order.index(name.partition("-")[0])):
            process = self.running[name]
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def told(self, name: str) -> str:
        """The end of what it printed."""
        return self.log(name).read_text()[-4000:]


def answers(url: str) -> bool:
    try:
        return httpx2.get(url, trust_env=False, timeout=10).status_code == 200
    except httpx2.TransportError:
        return False


def processes_of(directory: Path) -> dict[int, str]:
    """Processes that have this directory in their environment or command line, such as those of Pods."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            environment = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and str(directory).encode() in command + environment:
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def below(pid: int) -> dict[int, str]:
    """The command lines of the process's descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = {}, [pid]
    while queue:
        for child in parents.get(queue.pop(), []):
            queue.append(child)
            with contextlib.suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found
