"""Termination messages: what a container leaves in a file, or at the end of its log, to explain its end."""

from __future__ import annotations

import os
from pathlib import Path

MAX_BYTES = 4096
MAX_LOG_BYTES = 2048
MAX_LOG_LINES = 80
_READ_BYTES = 64 << 10


def of_file(path: Path) -> str:
    """The end of the file; "" if there is none."""
    return _end(path, MAX_BYTES).decode(errors="replace")


def of_log(path: Path) -> str:
    """The last lines of a log, without their times."""
    lines = [line.partition(b" ")[2] for line in _end(path, _READ_BYTES).splitlines()[-MAX_LOG_LINES:]]
    return b"\n".join(lines)[-MAX_LOG_BYTES:].decode(errors="replace")


def _end(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(0, length - size))
            return file.read(size)
    except OSError:
        return b""
