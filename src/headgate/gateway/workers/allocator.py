"""The C library's memory allocator in a worker."""

from __future__ import annotations

import ctypes
from contextlib import suppress

LARGE_BYTES = 1 << 20
"""Blocks of this size or more go back to the system when they are freed."""
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
