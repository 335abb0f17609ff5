"""Counts of spans that the exporting process shares with the one that sends them, in a piece of memory."""

from __future__ import annotations

import mmap
import struct
from typing import Final, NamedTuple

_FORMAT: Final = struct.Struct("<3Q")
SIZE: Final = _FORMAT.size


class Counts(NamedTuple):
    """Spans that left the exporting process."""

    exported: int = 0
    """Accepted by the collector."""
    failed: int = 0
    """Not accepted, or not in time."""
    dropped: int = 0
    """More than could wait."""


def read(memory: mmap.mmap) -> Counts:
    return Counts(*_FORMAT.unpack_from(memory))


def write(memory: mmap.mmap, counts: Counts) -> None:
    _FORMAT.pack_into(memory, 0, *counts)
