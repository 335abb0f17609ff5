"""How many adapters a status tells of: an API server accepts an object of about 1.5 MB, spec included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from headgate.api.kthena_registry import ModelAdapterStatus

MOST_BYTES: Final = 256 * 1024
"""Of the entries of all backends together, as JSON."""
SHORT: Final = 80
"""Characters of an error when there are many."""


class Bounded(NamedTuple):
    """The entries of each backend that fit, and the number of those that were left out."""

    entries: list[list[ModelAdapterStatus]]
    left_out: int


def bounded(backends: Sequence[Sequence[ModelAdapterStatus]]) -> Bounded:
    """All entries if they fit; else with short errors; else those of loaded adapters are left out first."""
    whole = [list(entries) for entries in backends]
    if _bytes(whole) <= MOST_BYTES:
        return Bounded(whole, 0)
    short = [[_shortened(entry) for entry in entries] for entries in whole]
    if _bytes(short) <= MOST_BYTES:
        return Bounded(short, 0)
    numbered = [(index, entry) for index, entries in enumerate(short) for entry in entries]
    kept, room = set[int](), MOST_BYTES
    order = sorted(range(len(numbered)), key=lambda number: numbered[number][1].state == "Loaded")
    for number in order:
        room -= _size(numbered[number][1])
        if room < 0:
            break
        kept.add(number)
    found: list[list[ModelAdapterStatus]] = [[] for _ in backends]
    for number, (index, entry) in enumerate(numbered):
        if number in kept:
            found[index].append(entry)
    return Bounded(found, len(numbered) - len(kept))


def _bytes(backends: Sequence[Sequence[ModelAdapterStatus]]) -> int:
    return sum(_size(entry) for entries in backends for entry in entries)


def _size(entry: ModelAdapterStatus) -> int:
    return len(msgspec.json.encode(entry)) + 1


def _shortened(entry: ModelAdapterStatus) -> ModelAdapterStatus:
    if len(entry.error) <= SHORT:
        return entry
    return msgspec.structs.replace(entry, error=f"{entry.error[: SHORT - 3]}...")
