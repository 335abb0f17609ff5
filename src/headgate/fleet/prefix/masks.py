"""Bitmasks of endpoints, and how many leading blocks of a prompt each endpoint holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TypeAlias

Places: TypeAlias = Mapping[int, int]
"""Position of each endpoint in a list, by its bit."""

FEW = 4
"""A set of at most this many endpoints is walked bit by bit; for a larger one, all places are checked."""


def longest(owners: Mapping[int, int], blocks: Sequence[int], places: Places, size: int) -> list[int]:
    """For each of `size` places, how many leading blocks have its bit set in `owners`."""
    holding = owners.get(blocks[0], 0) if blocks else 0
    if not holding:
        return [0] * size
    if owners.get(blocks[-1], 0) == holding:  # an endpoint that holds the last block holds all before it
        return spread([(holding, len(blocks))], places, size)
    return counted(map(owners.get, blocks, repeat(0)), places, size)


def counted(masks: Iterable[int], places: Places, size: int) -> list[int]:
    """For each of `size` places, how many leading masks have its bit set."""
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
    """The count of each place, from pairs of endpoint masks and counts. Masks may contain endpoints without a
    place."""
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
