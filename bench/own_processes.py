"""The processes that a benchmark starts: their standard error goes to files, and they end with it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 20.0
_LOW = 10
"""A nice value that leaves a tenth of a core beside a busy process, so that attacks still progress."""
_GATEWAY_READY = r"is ready on \S+:(\d+); metrics on (\S+:(\d+)\S*), dashboard on (\S+:(\d+))/dashboard\n"


@contextlib.contextmanager
def started(scratch: Path, name: str, *arguments: str, **streams: Any) -> Iterator[subprocess.Popen[str]]:
    """Run Python with these arguments; its standard error goes to NAME.err in `scratch`."""
    with (scratch / f"{name}.err").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            **{"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL, **streams},
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


@contextlib.contextmanager
def apiserver(scratch: Path) -> Iterator[subprocess.Popen[str]]:
    """An embedded API server on a free port, ready; its kubeconfig is SCRATCH/state/kubeconfig."""
    state = ("--state", str(scratch / "state"), "--port", "0")
    with started(scratch, "apiserver", "-m", "headgate", "apiserver", *state) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


@contextlib.contextmanager
def gateway(
    scratch: Path, *flags: str, kubeconfig: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    """A gateway of that API server on free ports, ready, with its access log in SCRATCH/access.log.

    `kubeconfig`: of another server. The match has the gateway's port, the URL and the port of its metrics,
    and those of its admin pages.
    """
    kubeconfig = kubeconfig or scratch / "state" / "kubeconfig"
    command = ["-m", "headgate", "gateway", "--kubeconfig", str(kubeconfig)]
    command += [flag for name in ("", "metrics-", "admin-") for flag in (f"--{name}port", "0")]
    command += ["--logging-access-log", "json", *flags]
    with (
        (scratch / "access.log").open("wb") as log,
        started(scratch, "gateway", *command, stdout=log) as process,
    ):
        yield process, found_in_errors(scratch, "gateway", _GATEWAY_READY)


def found_in_errors(scratch: Path, name: str, pattern: str) -> re.Match[str]:
    """Wait for output on a process's standard error, such as its ports."""
    deadline = time.monotonic() + READY_WITHIN_S
    said = ""
    while time.monotonic() < deadline:
        said = (scratch / f"{name}.err").read_text()
        if found := re.search(pattern, said):
            return found
        time.sleep(0.1)
    raise RuntimeError(f"the {name} was not ready within {READY_WITHIN_S:g} s: {said[-1000:]}")


def end(process: subprocess.Popen[Any], within_s: float = STOP_WITHIN_S) -> None:
    """Ask a process to end; kill it with its group after `within_s`."""
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def yield_to_others() -> None:
    """Give this process a low priority, also relative to other sessions.

    If the kernel groups tasks by session (`sched_autogroup_enabled`), a nice value only counts within one
    session, and each session has its own.
    """
    with contextlib.suppress(PermissionError):  # it already leads its session
        os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_LOW))
    os.nice(_LOW)
