"""The C library's memory allocator in a server."""

from __future__ import annotations

import asyncio
import ctypes
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

INTERVAL_S = 2.0
LARGE_BYTES = 1 << 20
"""Blocks of this size or more are returned to the system when they are freed."""
WORTH_BYTES = 64 << 20
"""If so much memory has become free, returning it is worth the time."""
_SPARE_BYTES = 16 << 20
"""Free memory kept at the end of the heap for later allocations."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""


def return_large_blocks() -> None:
    """Keep glibc from allocating long request bodies in its heap, where the gaps they leave stay resident.

    By default it starts to do so when the first large block is freed: after 60 uploads of 31 MB each had
    ended, 390 MB stayed resident. Other C libraries do not have this parameter and are left alone.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, _SPARE_BYTES)


def resident_bytes() -> int:
    """Resident memory of this process; 0 if the system does not report it."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


class Heap(ctypes.Structure):
    """glibc's `struct mallinfo2`, see mallinfo(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def free_bytes() -> int:
    """Free memory in the heap, resident or not. Takes 30 ms for 300,000 pieces. Without glibc 2.33, the
    resident memory, because the free memory is unknown."""
    try:
        look = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return resident_bytes()
    look.restype = Heap
    return int(look().fordblks)


class FreeMemory:
    """Decides when returning free memory is worthwhile: much of it must be free, and have become so since the
    last time.

    Memory that was in use then may be free now at the same resident size, so that size alone does not show
    it.
    """

    def __init__(self, resident: int) -> None:
        self._least = self._resident = resident
        self._free = 0

    def returned(self, resident: int, free: int) -> None:
        """Record the figures after everything possible was returned."""
        self._resident, self._free = resident, free

    def is_worth_returning(self, resident: int, look: Callable[[], int]) -> bool:
        """`look` returns the free bytes, and is called only if more is resident than usual."""
        self._least = min(self._least, resident)
        self._resident = min(self._resident, resident)
        if resident - self._least <= WORTH_BYTES:
            return False
        free = look()
        self._free = min(self._free, free)
        return free > WORTH_BYTES and max(resident - self._resident, free - self._free) > WORTH_BYTES


def return_free_memory() -> None:
    """Return free pages within the heap. Half a GB takes about 40 ms, in which other threads wait if they
    allocate more than Python's small objects.

    Bodies are read in pieces below LARGE_BYTES, with longer-lived objects between them: after an attack of
    aborted uploads, 400 MB of free memory stayed resident.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(_SPARE_BYTES)


async def keep_returning() -> None:
    """Return what waves of bodies, or of engines' pages, left behind, until cancelled."""
    memory = FreeMemory(resident_bytes())
    while True:
        await asyncio.sleep(INTERVAL_S)
        await asyncio.to_thread(_return_if_worth_it, memory)


def _return_if_worth_it(memory: FreeMemory) -> None:
    if memory.is_worth_returning(resident_bytes(), free_bytes):
        return_free_memory()
        memory.returned(resident_bytes(), free_bytes())
