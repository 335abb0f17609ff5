"""Files that only their owner may read."""

from __future__ import annotations

import os
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
