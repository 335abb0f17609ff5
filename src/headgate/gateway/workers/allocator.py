"""The C library's memory allocator in a worker."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress
from pathlib import Path

LARGE_BYTES = 1 << 20
"""Blocks of this size or more go back to the system when they are freed."""
WORTH_BYTES = 64 << 20
"""If so much more is resident than is in use, the time to give it back is well spent."""
_SPARE_BYTES = 16 << 20
"""So much free memory at the end of the heap is kept for what comes next."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""


def return_large_blocks() -> None:
    """Keeps glibc from placing long request bodies in its heap, where the gaps they leave stay resident.

    By default it begins to do so when the first large block is freed: after 60 uploads of 31 MB each had
    ended, 390 MB stayed resident. Other C libraries do not have this parameter and are left alone.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, _SPARE_BYTES)


def resident_bytes() -> int:
    """Of this process; 0 where the system does not tell."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def return_free_memory() -> None:
    """Gives back the pages amid the heap that are free. Half a GB takes about 40 ms, in which other threads
    wait if they allocate more than Python's small objects.

    Bodies are read in pieces below LARGE_BYTES, and what lives longer lies between them: after an attack of
    aborted uploads, 400 MB of free memory stayed resident.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(_SPARE_BYTES)
