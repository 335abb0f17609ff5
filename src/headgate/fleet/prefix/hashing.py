"""The hashes of a prompt's blocks, each chained to the one before it.

Blocks are of bytes, as counting tokens would cost a hundred times more than everything else. A block is 1 KB
long, some 256 tokens, and from 64 KB on a 32nd to a 64th of what is before it: a prompt of 500 KB has 130
blocks instead of 500, and how much of it is held is still known to within 3 %. Places of blocks depend on
nothing but the distance from the beginning, so that a conversation that grows keeps those it had. What comes
after the last whole block, and after the first 4 MB, is not hashed: of a prompt below 1 KB nothing is. It is
prefilled in a few milliseconds, and to look it up would add as much to the cost of a request as all else
that picks its endpoint. A policy may ask for shorter blocks within the first kilobyte all the same.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import xxhash

_SECRET = int.from_bytes(os.urandom(8), "little")
"""As Python does for its own hashes: who does not know it cannot make prompts whose blocks collide."""
BLOCK_BYTES = 1024
"""The unit in which places in a prompt are counted."""
GROWTH = 32
"""All before a long block is at least so many times as long as it is."""
MAX_BYTES = 4 * 1024 * 1024

_digest = xxhash.xxh3_64_intdigest


def _block_ends() -> tuple[int, ...]:
    ends = [1]
    while ends[-1] * BLOCK_BYTES < MAX_BYTES:
        ends.append(ends[-1] + max(ends[-1] // GROWTH, 1))
    return tuple(ends)


BLOCK_ENDS: tuple[int, ...] = _block_ends()
"""Where the blocks of a text end, in units of 1 KB."""


class Blocks(NamedTuple):
    """How texts are cut."""

    ends: tuple[float, ...]
    """Where blocks end, in units of 1 KB."""
    byte_ends: tuple[int, ...]
    slices: tuple[slice, ...]


def _blocks(first: tuple[int, ...]) -> Blocks:
    """The usual ones, of which the first kilobyte is cut at these bytes."""
    byte_ends = (*first, *(end * BLOCK_BYTES for end in BLOCK_ENDS))
    slices = tuple(slice(start, end) for start, end in pairwise((0, *byte_ends)))
    return Blocks(tuple(end / BLOCK_BYTES for end in first) + BLOCK_ENDS, byte_ends, slices)


USUAL = _blocks(())


@lru_cache(maxsize=64)
def blocks_from(first_bytes: int) -> Blocks:
    """Blocks of so many bytes in the first kilobyte, and the usual ones behind it; 0 is the usual ones. An
    index counts each of the short ones as one unit, so it holds a little less."""
    return _blocks(tuple(range(first_bytes, BLOCK_BYTES, first_bytes))) if first_bytes else USUAL


@lru_cache(maxsize=1024)
def seed(model: str, salt: bytes = b"") -> int:
    """What the first block is chained to: prompts of two models, adapters or salts have nothing in common.

    It is another one in each process.
    """
    return _digest(salt, _digest(model.encode(), _SECRET))


def hashes(text: bytes | memoryview, seed: int, blocks: Blocks = USUAL) -> list[int]:
    """The hashes of a text's whole blocks, of 64 bits; each stands for all of the text before it as well."""
    chained, found = seed, []
    view = memoryview(text)  # blocks are not copied
    for block in blocks.slices[: bisect_right(blocks.byte_ends, len(text))]:
        chained = _digest(view[block], chained)
        found.append(chained)
    return found
