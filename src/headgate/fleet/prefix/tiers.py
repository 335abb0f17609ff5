"""The tiers of memory that engines keep blocks in, and what a block is worth in each.

Engines and their connectors name a place in many ways; for a router there are three: the accelerator, from
which a block is used at once; the host's memory, from which it is copied; and all that is slower, be it a
disk or a store elsewhere.
"""

from __future__ import annotations

from typing import Final

GPU: Final = 0
HOST: Final = 1
STORAGE: Final = 2
TIERS: Final = 3
NAMES: Final = ("accelerator", "host", "storage")

WEIGHTS: Final = (1.0, 0.8, 0.5)
"""What a block is worth: 1 less the share that its way to the accelerator has of the time to compute it. From
a disk that reads 3 GB/s, a block of a model of 8 billion parameters takes half as long or more."""

_NAMES: Final = {
    **dict.fromkeys(("", "GPU", "DEVICE"), GPU),
    **dict.fromkeys(("CPU", "CPU_PINNED", "CPU_TIER1", "HOST", "HOST_PINNED"), HOST),
}


def of_medium(name: str) -> int:
    """The tier of what an event calls its medium; a name that is not known is no faster than a disk."""
    return _NAMES.get(name.upper(), STORAGE)
