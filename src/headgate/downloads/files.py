"""Files in directories that other processes write too."""

from __future__ import annotations

import errno
import os
import stat


def regular(path: str, flags: int) -> int:
    """An opener of regular files: a pipe in the place of one would wait for a writer. Raises OSError."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)
