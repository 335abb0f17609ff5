"""Extremes of a number over the last seconds, kept so that a window of any length can be asked for.

A new value displaces all earlier values that it equals or exceeds (for a maximum), since no window that
ends now can have them as its maximum. What is left is in order of time and falls; the first entry inside a
window is its maximum. A policy may therefore change the length of its windows without losing history.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import Annotated, Final, Generic, TypeAlias, TypeVar

from msgspec import Meta

__all__ = [
    "LONGEST_S",
    "MOST_ENTRIES",
    "Entries",
    "Snapshots",
    "are_in_order",
    "extreme",
    "with_high",
    "with_low",
]

LONGEST_S: Final = 1800.0
"""The longest window of a policy."""
MOST_ENTRIES: Final = 32
MOST_SNAPSHOTS: Final = 64

T = TypeVar("T")

Entries: TypeAlias = Annotated[
    tuple[tuple[float, Annotated[int, Meta(ge=0, le=1_000_000_000)]], ...], Meta(max_length=MOST_ENTRIES)
]


def with_high(entries: Entries, now: float, value: int) -> Entries:
    """The entries of a maximum after `value` was seen at `now`."""
    return _bounded([(at, seen) for at, seen in _recent(entries, now) if seen > value], (now, value))


def with_low(entries: Entries, now: float, value: int) -> Entries:
    """The entries of a minimum after `value` was seen at `now`."""
    return _bounded([(at, seen) for at, seen in _recent(entries, now) if seen < value], (now, value))


def extreme(entries: Entries, since: float, *, or_at: bool) -> tuple[float, int] | None:
    """The extreme after `since` (or also at it), with the time when it was last seen; None if nothing was."""
    for entry in entries:
        if entry[0] > since or (or_at and entry[0] == since):
            return entry
    return None


def are_in_order(entries: Entries) -> bool:
    """Whether their times rise, as in all that the functions of this module return. An entry in the future
    before one in the past would stay for ever."""
    return all(earlier[0] <= later[0] for earlier, later in itertools.pairwise(entries))


def _recent(entries: Entries, now: float) -> Entries:
    """Entries that a window can still contain. After a clock was set back, none is in the future."""
    if entries and (entries[0][0] < now - LONGEST_S or entries[-1][0] > now):
        return tuple((min(at, now), value) for at, value in entries if at >= now - LONGEST_S)
    return entries


def _bounded(kept: list[tuple[float, int]], last: tuple[float, int]) -> Entries:
    """At most MOST_ENTRIES: of the two closest in time, the more extreme value takes the later time, so that
    a window may contain a little too much, but never too little."""
    kept.append(last)
    while len(kept) > MOST_ENTRIES:
        gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(kept[:-1])]
        closest = gaps.index(min(gaps))
        kept[closest : closest + 2] = [(kept[closest + 1][0], kept[closest][1])]
    return tuple(kept)


class Snapshots(Generic[T]):
    """Values over time, of which an earlier one is asked for, as a base for differences: the newest that is
    at least `fresh_s` old, and at most `expire_s`.

    Of a shorter past, the oldest value that is at least `least_s` old counts; infinite for none.
    """

    __slots__ = ("_entries", "_expire_s", "_fresh_s", "_least_s")

    def __init__(self, fresh_s: float, expire_s: float, least_s: float = math.inf) -> None:
        self._fresh_s = fresh_s
        self._expire_s = expire_s
        self._least_s = least_s
        self._entries: deque[tuple[float, T]] = deque(maxlen=MOST_SNAPSHOTS)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def last(self) -> T | None:
        """The newest value."""
        return self._entries[-1][1] if self._entries else None

    def add(self, now: float, value: T) -> None:
        """Values that no later call can ask for are dropped."""
        entries = self._entries
        while entries and not now - self._expire_s <= entries[0][0] < now:
            entries.popleft()
        while len(entries) > 1 and entries[1][0] <= now - self._fresh_s:
            entries.popleft()
        entries.append((now, value))

    def clear(self) -> None:
        self._entries.clear()

    def base(self, now: float) -> tuple[float, T] | None:
        """The value to compare with, and since when it is known."""
        found: tuple[float, T] | None = None
        for entry in self._entries:
            age_s = now - entry[0]
            if age_s > self._expire_s:
                continue
            if age_s < self._fresh_s and (found is not None or age_s < self._least_s):
                break
            found = entry
        return found
