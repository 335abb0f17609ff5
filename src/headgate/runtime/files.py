"""Small JSON files in a directory that other processes write too: never blocked, never too large."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read(path: Path, max_bytes: int) -> bytes:
    """The content of a regular file. Raises OSError, also if it is something else or too large."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(f"{path} has more than {max_bytes} bytes")
    return content


def replace(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old or the new one. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # in case somebody else made it a link
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    new.replace(path)
