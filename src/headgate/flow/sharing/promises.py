"""What each process may have of a bound of them all, until it has said that it goes by less.

A part that is told takes time to arrive, and until then the process goes by the one before. So a part is
given only out of what nobody is promised: who is to have less is told so first, and says so, before another
has it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from headgate.flow.sharing import dividing
from headgate.flow.sharing.reports import NO_BOUND, Part, Waits

Who = TypeVar("Who", bound=Hashable)
MAX_UNDER_WAY = 16
"""Of one process, which confirms nothing; what is older counts until the next of them is confirmed."""
ROUNDING = 1e-9
"""So that shares which add up to one stay what they are."""


class _Promise:
    __slots__ = ("confirmed", "under_way")

    def __init__(self, confirmed: float) -> None:
        self.confirmed = confirmed
        """What it goes by, or has, as it last said."""
        self.under_way: list[tuple[int, float]] = []
        """What it was told since, by turns, as far as nothing that was told later is as much."""

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
    """Of one bound of one pool. Whoever has said nothing is promised an equal part, with which it began."""

    def __init__(self) -> None:
        self._of: dict[Who, _Promise] = {}

    def heard(self, who: Who, turn: int, part: float) -> None:
        """It goes by what it was told at this turn, and has or may have so much."""
        promise = self._of.setdefault(who, _Promise(part))
        promise.confirmed = part
        promise.under_way = [told for told in promise.under_way if told[0] > turn]

    def forget(self, who: Who) -> None:
        """It has nothing any more."""
        self._of.pop(who, None)

    def give(
        self, wanted: Mapping[Who, float], turn: int, bound: float, even: float, absent: int
    ) -> dict[Who, float]:
        """As much of what each is to have as nobody else is promised; `absent` are there, or will be, and
        have said nothing, nor can be told anything. Where their parts are missing, those that have more than
        they are to have give them up: what the others have is not taken away."""
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
    """Of what may wait in one band of one pool, or in all of them."""

    def __init__(self) -> None:
        self._requests: Promises[Who] = Promises()
        self._bytes: Promises[Who] = Promises()
        self._nothing = Waits()
        """With the bounds that were heard of last."""

    def heard(self, who: Who, turn: int, waits: Waits) -> None:
        """What waits there, and the parts by which it goes, which it was told at this turn."""
        self._nothing = Waits(max_requests=waits.max_requests, max_bytes=waits.max_bytes)
        self._requests.heard(who, turn, max(waits.part_requests, waits.requests))
        self._bytes.heard(who, turn, max(waits.part_bytes, waits.bytes))

    def forget(self, who: Who) -> None:
        """It has nothing any more."""
        self._requests.forget(who)
        self._bytes.forget(who)

    def give(self, waits: Mapping[Who, Waits | None], turn: int, absent: int) -> dict[Who, Part]:
        """What may wait in each of those that told something of the pool, though maybe not of this band;
        `absent` are there, or will be, and have told nothing."""
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
    """Whoever knows of no bound goes by none."""
    bounded = {who: part for who, part in wanted.items() if part != NO_BOUND}
    even = math.ceil(bound / (len(wanted) + absent))
    given = promises.give(bounded, turn, bound, even, absent)
    return {who: int(given.get(who, NO_BOUND)) for who in wanted}
