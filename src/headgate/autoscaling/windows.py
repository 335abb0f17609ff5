"""Extremes of a number over the last seconds, kept so that a window of any length can be asked for.

A new value displaces all earlier values that it equals or exceeds (for a maximum), since no window that
ends now can have them as its maximum. What is left is in order of time and falls; the first entry inside a
window is its maximum. A policy may therefore change the length of its windows without losing history.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Final, NamedTuple, TypeAlias

from msgspec import Meta

__all__ = ["LONGEST_S", "MOST_ENTRIES", "Entries", "Snapshots", "extreme", "with_high", "with_low"]

LONGEST_S: Final = 1800.0
"""The longest window of a policy."""
MOST_ENTRIES: Final = 32

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


class Snapshots(NamedTuple):
    """Values of which the newest that is at least `fresh_s` old is asked for, as a base for differences.

    Values older than `expire_s` are forgotten.
    """

    fresh_s: float
    expire_s: float
    entries: tuple[tuple[float, object], ...] = ()

    def with_value(self, now: float, value: object) -> Snapshots:
        kept = [entry for entry in self.entries if now - self.expire_s <= entry[0] < now]
        base = [index for index, (at, _) in enumerate(kept) if at <= now - self.fresh_s]
        return self._replace(entries=(*kept[base[-1] if base else 0 :], (now, value)))

    def base(self, now: float) -> object | None:
        for at, value in reversed(self.entries):
            if at <= now - self.fresh_s:
                return value if at >= now - self.expire_s else None
        return None
