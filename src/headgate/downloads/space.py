"""Checks that a download fits onto its volume before it begins."""

from __future__ import annotations

import os
from pathlib import Path

from headgate.downloads.errors import DownloadError, Reason

_SPARE_BYTES = 16 << 20
"""For journals, the manifest and the directories."""


def require(directory: Path, needed: int) -> None:
    """Raise DownloadError if fewer than `needed` bytes are free."""
    found = os.statvfs(directory)
    free = found.f_bavail * found.f_frsize
    if needed and found.f_blocks and free < needed + _SPARE_BYTES:
        raise DownloadError(
            Reason.NO_SPACE,
            f"{directory} has {shown(free)} free, but the download needs {shown(needed + _SPARE_BYTES)}: "
            "free space, or use a larger volume",
        )


def shown(count: float) -> str:
    """A number of bytes for people: 13.5 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
