"""The processes that a bench starts: their standard error goes to files, and they end with it."""

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


@contextlib.contextmanager
def started(scratch: Path, name: str, *arguments: str, **streams: Any) -> Iterator[subprocess.Popen[str]]:
    """Runs Python with these arguments; NAME.err in `scratch` has its standard error."""
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
        _end(process)


def found_in_errors(scratch: Path, name: str, pattern: str) -> re.Match[str]:
    """Waits until a process has said something on its standard error, such as its ports."""
    deadline = time.monotonic() + READY_WITHIN_S
    said = ""
    while time.monotonic() < deadline:
        said = (scratch / f"{name}.err").read_text()
        if found := re.search(pattern, said):
            return found
        time.sleep(0.1)
    raise RuntimeError(f"the {name} was not ready within {READY_WITHIN_S:g} s: {said[-1000:]}")


def _end(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
