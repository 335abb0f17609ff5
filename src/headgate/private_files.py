"""Files of keys and settings: written for their owner only, and read without waiting for anything."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Write a file with mode 0600 atomically: readers see either the old or the complete new file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path, most: int) -> bytes:
    """Up to `most` bytes of a file. Raises OSError, also for what is no regular file: opening a pipe would
    wait for its writer, and a device may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)
