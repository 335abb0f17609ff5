"""Cache sizes in bytes, for people who do not count in blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

IN_BLOCKS = {
    "kv_bytes": "kv_blocks",
    "host_kv_bytes": "host_kv_blocks",
    "disk_kv_bytes": "disk_kv_blocks",
    "remote_kv_bytes": "remote_kv_blocks",
}
"""Sizes in bytes, each with the engine constant that it sets."""


class SizeError(ValueError):
    """A size that is invalid or smaller than one block."""


def said_twice(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Sizes given both in bytes and in blocks, as pairs of names."""
    return [(name, blocks) for name, blocks in IN_BLOCKS.items() if name in given and blocks in given]


def in_blocks(given: Mapping[str, Any], block_size: int, kv_bytes_per_token: int) -> dict[str, Any]:
    """The constants with all sizes in whole blocks of `block_size` tokens. Raises SizeError."""
    block_bytes = block_size * kv_bytes_per_token
    settled = {name: value for name, value in given.items() if name not in IN_BLOCKS}
    for name, blocks in IN_BLOCKS.items():
        if name in given:
            size = given[name]
            if size and not block_bytes <= size < math.inf:
                message = f"must be 0, or at least one block of {block_bytes} bytes"
                raise SizeError(f"{name}: {message}; got {size:g}")
            settled[blocks] = int(size // block_bytes)
    return settled
