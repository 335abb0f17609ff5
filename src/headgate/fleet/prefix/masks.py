"""Sets of endpoints as the bits of a number, and how far a prompt is held by each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TypeAlias

Places: TypeAlias = Mapping[int, int]
"""Where in a list of endpoints each is, by its bit."""

FEW = 4
"""Of so few endpoints each is looked for; of more, all are gone through."""


def longest(owners: Mapping[int, int], blocks: Sequence[int], places: Places, size: int) -> list[int]:
    """For each of `size` places, how many of the blocks at the front have its bit set in `owners`."""
    holding = owners.get(blocks[0], 0) if blocks else 0
    if not holding:
        return [0] * size
    if owners.get(blocks[-1], 0) == holding:  # who has the last block has all before it
        return spread([(holding, len(blocks))], places, size)
    return counted(map(owners.get, blocks, repeat(0)), places, size)


def counted(masks: Iterable[int], places: Places, size: int) -> list[int]:
    """For each of `size` places, how many of the masks at the front have its bit set."""
    counts: list[tuple[int, int]] = []
    holding, count = -1, 0
    for mask in masks:
        if mask & holding != holding:
            if count:
                counts.append((holding & ~mask, count))
            holding &= mask
            if not holding:
                return spread(counts, places, size)
        count += 1
    counts.append((holding, count))
    return spread(counts, places, size)


def spread(counts: Iterable[tuple[int, int]], places: Places, size: int, otherwise: int = 0) -> list[int]:
    """The count of each place, from those of sets of endpoints, which may have others in them as well."""
    spread = [otherwise] * size
    for chosen, count in counts:
        if chosen >= 0 and chosen.bit_count() <= FEW:
            while chosen:
                bit = chosen & -chosen
                if bit in places:
                    spread[places[bit]] = count
                chosen ^= bit
        else:
            for bit, place in places.items():
                if bit & chosen:
                    spread[place] = count
    return spread
