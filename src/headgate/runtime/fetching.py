"""Downloads, each in a process of its own: it can be killed, and its memory is given back."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

MAX_AT_ONCE: Final = 2
MAX_ERROR_LINES: Final = 20
MAX_ERROR_CHARACTERS: Final = 1000
STOP_S: Final = 10.0

COMMAND: Final = (sys.executable, "-P", "-m", "headgate", "download")
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}")

Fetch = Callable[[str, Path, str], Coroutine[Any, Any, None]]
"""Brings a source into a directory, unless it is there; the name is that of its progress file. Raises
FetchError."""


class FetchError(Exception):
    """Why a download failed, for people."""


def in_place(source: str) -> Path | None:
    """The directory of a source that is a file system's already; None if the source is to be downloaded.

    A claim of pvc:// is mounted at /CLAIM.
    """
    for scheme, root in (("pvc://", "/"), ("file://", "")):
        if source.startswith(scheme):
            return Path(root + source.removeprefix(scheme))
    return Path(source) if source.startswith("/") else None


def directory_of(source: str, root: Path) -> Path:
    """Where a source is downloaded to below `root`: the same place for everyone."""
    return root / hashlib.md5(source.encode(), usedforsecurity=False).hexdigest()


class Fetcher:
    """Runs `headgate download`, for a few sources at a time."""

    def __init__(self, status_dir: Path, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)
        self._status_dir = status_dir
        self._places = asyncio.Semaphore(MAX_AT_ONCE)

    async def fetch(self, source: str, directory: Path, name: str) -> None:
        """Raises FetchError. If it is cancelled, what has arrived is kept for the next time."""
        words = [
            *self._command,
            f"--source={source}",
            f"--output-dir={directory}",
            f"--status-dir={self._status_dir}",
            f"--name={name if _NAME.fullmatch(name) else directory.name}",
        ]
        async with self._places:
            # The termination message of this container is not that of an adapter.
            env = {**os.environ, "TERMINATION_LOG": os.devnull}
            try:
                process = await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=env
                )
            except (OSError, ValueError) as error:
                raise FetchError(f"cannot start `headgate download`: {error}") from error
            try:
                told = await _last_lines(process)
                code = await process.wait()
            finally:
                await _end(process)
        if code:
            raise FetchError(told or f"`headgate download` ended with code {code}")


async def _last_lines(process: asyncio.subprocess.Process) -> str:
    """The end of its standard error, in one line."""
    assert process.stderr is not None
    kept: deque[str] = deque(maxlen=MAX_ERROR_LINES)
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:  # longer than the limit of the reader, which has dropped it
            continue
        if not line:
            break
        kept.append(line.decode(errors="replace").strip())
    lines = list(kept)
    starts = [number for number, line in enumerate(lines) if line.startswith("Error:")]
    told = " ".join(lines[starts[-1] :] if starts else lines[-1:])
    return told.removeprefix("Error:").strip()[:MAX_ERROR_CHARACTERS]


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
