"""Hashes of a prompt's blocks, each chained to the one before it.

Blocks are of bytes, because counting tokens would cost a hundred times more than everything else. A block is
1 KB long, about 256 tokens; from 64 KB on, it is 1/32 to 1/64 of what precedes it. A prompt of 500 KB has 130
blocks instead of 500, and the held share is still known to within 3 %. Block boundaries depend only on the
distance from the beginning, so a growing conversation keeps its blocks. What follows the last whole block, or
the first 4 MB, is not hashed. A prompt below 1 KB has no block: its prefill takes a few milliseconds, and
looking it up would double the cost of picking an endpoint. A policy may still ask for shorter blocks within
the first kilobyte.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import xxhash

_SECRET: Final = [int.from_bytes(os.urandom(8), "little")]
"""Seeds the hashes as Python seeds its own: without it, nobody can construct prompts whose blocks collide.
The only item is replaced by `share`."""
BLOCK_BYTES: Final = 1024
"""The unit of positions in a prompt."""
GROWTH: Final = 32
"""Everything before a long block is at least this many times its length."""
MAX_BYTES: Final = 4 * 1024 * 1024

_digest = xxhash.xxh3_64_intdigest


def _block_ends() -> tuple[int, ...]:
    ends = [1]
    while ends[-1] * BLOCK_BYTES < MAX_BYTES:
        ends.append(ends[-1] + max(ends[-1] // GROWTH, 1))
    return tuple(ends)


BLOCK_ENDS: Final[tuple[int, ...]] = _block_ends()
"""Where the blocks of a text end, in units of 1 KB."""


class Blocks(NamedTuple):
    """How texts are divided into blocks."""

    ends: tuple[float, ...]
    """Where blocks end, in units of 1 KB."""
    byte_ends: tuple[int, ...]
    slices: tuple[slice, ...]


def _blocks(first: tuple[int, ...]) -> Blocks:
    """The usual blocks, with the first kilobyte cut at these bytes."""
    byte_ends = (*first, *(end * BLOCK_BYTES for end in BLOCK_ENDS))
    slices = tuple(slice(start, end) for start, end in pairwise((0, *byte_ends)))
    return Blocks(tuple(end / BLOCK_BYTES for end in first) + BLOCK_ENDS, byte_ends, slices)


USUAL: Final = _blocks(())


@lru_cache(maxsize=64)
def blocks_from(first_bytes: int) -> Blocks:
    """Blocks of `first_bytes` in the first kilobyte, and the usual ones after it; 0 gives only the usual
    ones. An index counts each short block as one unit, so it holds a little less."""
    return _blocks(tuple(range(first_bytes, BLOCK_BYTES, first_bytes))) if first_bytes else USUAL


@lru_cache(maxsize=1024)
def seed(model: str, salt: bytes = b"") -> int:
    """The seed of the first block: prompts for different models, adapters or salts share no hash.

    It differs in each process, or in each group of processes that share what they know.
    """
    return _digest(salt, _digest(model.encode(), _SECRET[0]))


def share(key: bytes) -> None:
    """Hash prompts as all other processes do that have this key; call it before the first prompt."""
    digest = hashlib.blake2b(key, digest_size=8, person=b"headgate prompts")
    _SECRET[0] = int.from_bytes(digest.digest(), "little")
    seed.cache_clear()


def hashes(text: bytes | memoryview, seed: int, blocks: Blocks = USUAL) -> list[int]:
    """The 64-bit hashes of a text's whole blocks; each also stands for all of the text before it."""
    chained, found = seed, []
    view = memoryview(text)  # blocks are not copied
    for block in blocks.slices[: bisect_right(blocks.byte_ends, len(text))]:
        chained = _digest(view[block], chained)
        found.append(chained)
    return found
