"""Promised parts of a limit, which count until the process has confirmed smaller ones.

A new part takes time to arrive, and until then the process uses the old one. So parts are given only from
what is promised to no process: one whose part shrinks is notified first, and confirms it, before another gets
the difference.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from headgate.flow.sharing import dividing
from headgate.flow.sharing.reports import NO_BOUND, Part, Waits

Who = TypeVar("Who", bound=Hashable)
MAX_UNDER_WAY = 16
"""Unconfirmed parts per process; older ones are merged into the next."""
ROUNDING = 1e-9
"""So that shares which add up to one are not changed."""


class _Promise:
    __slots__ = ("confirmed", "under_way")

    def __init__(self, confirmed: float) -> None:
        self.confirmed = confirmed
        """The part that it uses, or what it has, by its last report."""
        self.under_way: list[tuple[int, float]] = []
        """Parts sent since, with their turns, except those that a later part makes irrelevant."""

    @property
    def most(self) -> float:
        return max(self.confirmed, self.under_way[0][1]) if self.under_way else self.confirmed

    def tell(self, turn: int, part: float) -> None:
        while self.under_way and self.under_way[-1][1] <= part:
            self.under_way.pop()
        self.under_way.append((turn, part))
        if len(self.under_way) > MAX_UNDER_WAY:
            (_, most), (turn, _) = self.under_way[:2]
            self.under_way[:2] = [(turn, most)]


class Promises(Generic[Who]):
    """Promises of one limit of one pool. A process without a report is promised an equal part, with which it
    started."""

    def __init__(self) -> None:
        self._of: dict[Who, _Promise] = {}

    def heard(self, who: Who, turn: int, part: float) -> None:
        """Record that the process uses the part of this turn, and has or may have `part`."""
        promise = self._of.setdefault(who, _Promise(part))
        promise.confirmed = part
        promise.under_way = [told for told in promise.under_way if told[0] > turn]

    def forget(self, who: Who) -> None:
        """Drop the promises to a process that is gone."""
        self._of.pop(who, None)

    def give(
        self, wanted: Mapping[Who, float], turn: int, bound: float, even: float, absent: int
    ) -> dict[Who, float]:
        """Give each process as much of the wanted part as is promised to nobody else. `absent` processes
        exist, or will, and have not reported, so nothing can be sent to them. To free their parts, those with
        more than they should have give up some: what others hold is never taken away."""
        for who in wanted:
            self._of.setdefault(who, _Promise(even))
        given = {who: self._of[who].most for who in wanted}
        taken = sum(given.values()) + absent * even
        most = bound * (1.0 + ROUNDING)
        fitting = min(max(most - absent * even, 0.0) / max(sum(wanted.values()), ROUNDING), 1.0)
        for who, part in wanted.items():
            before = given[who]
            given[who] = min(part * fitting, before + max(most - taken, 0.0))
            self._of[who].tell(turn, given[who])
            taken += max(given[who], before) - before
        return given


class PromisedParts(Generic[Who]):
    """Promises of what may be queued in one band of one pool, or in all of them."""

    def __init__(self) -> None:
        self._requests: Promises[Who] = Promises()
        self._bytes: Promises[Who] = Promises()
        self._nothing = Waits()
        """The limits last reported, with nothing queued."""

    def heard(self, who: Who, turn: int, waits: Waits) -> None:
        """Apply a report: what is queued, and the parts in use, which were sent at this turn."""
        self._nothing = Waits(max_requests=waits.max_requests, max_bytes=waits.max_bytes)
        self._requests.heard(who, turn, max(waits.part_requests, waits.requests))
        self._bytes.heard(who, turn, max(waits.part_bytes, waits.bytes))

    def forget(self, who: Who) -> None:
        """Drop the promises to a process that is gone."""
        self._requests.forget(who)
        self._bytes.forget(who)

    def give(self, waits: Mapping[Who, Waits | None], turn: int, absent: int) -> dict[Who, Part]:
        """What may be queued in each process that reported the pool, though maybe not this band; `absent`
        processes exist, or will, and have not reported."""
        known = [each or self._nothing for each in waits.values()]
        wanted = dict(zip(waits, dividing.parts([*known, *[self._nothing] * absent]), strict=False))
        requests = _given(
            self._requests,
            {who: part.requests for who, part in wanted.items()},
            turn,
            max(each.max_requests for each in known),
            absent,
        )
        sizes = _given(
            self._bytes,
            {who: part.bytes for who, part in wanted.items()},
            turn,
            max(each.max_bytes for each in known),
            absent,
        )
        return {who: Part(requests[who], sizes[who]) for who in waits}


def _given(
    promises: Promises[Who], wanted: Mapping[Who, int], turn: int, bound: int, absent: int
) -> dict[Who, int]:
    """New parts of a limit, by process. A process that wants no limit gets none."""
    bounded = {who: part for who, part in wanted.items() if part != NO_BOUND}
    even = math.ceil(bound / (len(wanted) + absent))
    given = promises.give(bounded, turn, bound, even, absent)
    return {who: int(given.get(who, NO_BOUND)) for who in wanted}
