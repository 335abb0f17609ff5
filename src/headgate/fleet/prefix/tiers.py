"""Tiers of memory in which engines keep blocks, and the value of a block in each.

Engines and their connectors have many names for them. A router needs three: the accelerator, whose blocks are
used at once; host memory, from which they are copied; and everything slower, such as a disk or a remote
store.
"""

from __future__ import annotations

from typing import Final

GPU: Final = 0
HOST: Final = 1
STORAGE: Final = 2
TIERS: Final = 3
NAMES: Final = ("accelerator", "host", "storage")

WEIGHTS: Final = (1.0, 0.8, 0.5)
"""The value of a block: 1 less the ratio of its transfer time to its compute time. From a disk that reads 3
GB/s, a block of a model with 8 billion parameters takes half as long as computing it, or more."""

_NAMES: Final = {
    **dict.fromkeys(("", "GPU", "DEVICE"), GPU),
    **dict.fromkeys(("CPU", "CPU_PINNED", "CPU_TIER1", "HOST", "HOST_PINNED"), HOST),
}


def of_medium(name: str) -> int:
    """The tier of an event's medium; an unknown one counts as storage."""
    return _NAMES.get(name.upper(), STORAGE)
