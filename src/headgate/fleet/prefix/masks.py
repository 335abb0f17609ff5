"""Sets of endpoints as the bits of a number, and how far a prompt is held by each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

FEW = 4
"""Of so few endpoints each is looked for; of more, all are gone through."""


def longest(owners: Mapping[int, int], blocks: Sequence[int], bits: Sequence[int]) -> list[int]:
    """For each of `bits`, how many of the blocks at the front have it set in `owners`."""
    counts = [0] * len(bits)
    holding = owners.get(blocks[0], 0) if blocks else 0
    if not holding:
        return counts
    if owners.get(blocks[-1], 0) == holding:  # who has the last block has all before it
        set_counts(counts, bits, holding, len(blocks))
        return counts
    return counted(map(owners.get, blocks, repeat(0)), bits)


def counted(masks: Iterable[int], bits: Sequence[int]) -> list[int]:
    """For each of `bits`, how many of the masks at the front have it set."""
    counts = [0] * len(bits)
    holding, count = -1, 0
    for mask in masks:
        if mask & holding != holding:
            if count:
                set_counts(counts, bits, holding & ~mask, count)
            holding &= mask
            if not holding:
                return counts
        count += 1
    set_counts(counts, bits, holding, count)
    return counts


def set_counts(counts: list[int], bits: Sequence[int], chosen: int, count: int) -> None:
    """Sets the counts where the bit is among the chosen ones; `chosen` may have further bits."""
    if chosen >= 0 and chosen.bit_count() <= FEW:
        while chosen:
            bit = chosen & -chosen
            if bit in bits:
                counts[bits.index(bit)] = count
            chosen ^= bit
    else:
        for n, bit in enumerate(bits):
            if bit & chosen:
                counts[n] = count
