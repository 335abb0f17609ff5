"""Which part of every limit each gateway goes by while they cannot count together.

Gateways tell a common book at times how much they used of late, and are told their part, which follows that,
with a floor for those that used nothing. A part is a promise: it is held by one until that one has said that
it goes by another. So parts never add up to more than the whole, whoever comes, goes, or hears an answer too
late or not at all. `quota/redis_members.py` keeps the same book inside Redis.
"""

from __future__ import annotations

import math

import msgspec

WHOLE = 1_000_000
"""Parts are whole numbers of this."""
FLOOR = 0.2
"""So much of the whole is divided evenly, the rest by use."""
RESERVE = WHOLE // 32
"""Kept for who comes next, until the others have made room."""
PRESENT_S = 10.0
"""Who was silent for longer is not counted; its part stays promised for"""
KEEP_S = 20.0
GRACE_S = 3.0
"""By so much later than the gateway does the book take a promise to be over."""
SMOOTHING_S = 10.0
"""Over what time use is averaged."""


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway says."""

    turn: int
    """Counts its words: one that arrives after a later one says nothing."""
    held: int
    """The part that it goes by, of WHOLE; 0 for none."""
    weight: float
    """What it used of late, of all that limits allow."""
    is_leaving: bool = False
    time_from: float | None = None
    """As in Claim."""
    time_until: float | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What it is told."""

    members: int
    """How many there are; 0 if that is not known."""
    part: int = 0
    """What it may go by, of WHOLE; 0 where that is not known: then equal parts are as good as any."""
    time: float = 0.0


class _Member:
    __slots__ = ("heard_at", "promised", "turn", "weight")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.promised = 0
        self.weight = 0.0
        self.heard_at = -math.inf


class ShareBook:
    """The book. One that is new gives nobody more than it says to have, until all have had time to say so."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._members: dict[str, _Member] = {}

    def note(self, name: str, presence: Presence, now: float) -> Standing:
        """Takes down what a gateway says, and tells it its part."""
        self._members = {
            name: member
            for name, member in self._members.items()
            if now - member.heard_at <= KEEP_S + GRACE_S
        }
        if presence.is_leaving:
            self._members.pop(name, None)
            return Standing(members=len(self._members), time=now)
        member = self._members.setdefault(name, _Member(presence.turn - 1))
        if presence.turn <= member.turn:
            return Standing(members=self._present(now), part=presence.held, time=now)
        member.turn, member.weight, member.heard_at = presence.turn, presence.weight, now
        part = presence.held if now - self._since <= KEEP_S + GRACE_S else self._part(member, now)
        member.promised = max(presence.held, part)
        return Standing(members=self._present(now), part=part, time=now)

    def _present(self, now: float) -> int:
        return sum(now - member.heard_at <= PRESENT_S for member in self._members.values())

    def _part(self, member: _Member, now: float) -> int:
        members = self._members.values()
        present = [each for each in members if now - each.heard_at <= PRESENT_S]
        room = WHOLE - sum(each.promised for each in members if each is not member)
        silent = sum(each.promised for each in members) - sum(each.promised for each in present)
        weights = sum(each.weight for each in present)
        even = 1 / len(present)
        by_use = member.weight / weights if weights > 0 else even
        fair = math.floor((WHOLE - RESERVE - silent) * (FLOOR * even + (1 - FLOOR) * by_use))
        return max(min(fair, max(room - RESERVE, room // 2)), 0)


class Share:
    """A gateway's side. `now` is monotonic seconds."""

    def __init__(self, now: float) -> None:
        self.members = 0
        """As far as it was told."""
        self._part = 0
        self._turn = 0
        self._weight = 0.0
        self._said_at = now
        self._known_until = -math.inf
        self._time: float | None = None
        self._time_asked_at = self._time_told_at = now

    @property
    def fraction(self) -> float | None:
        """Of each limit; None where none was promised."""
        return self._part / WHOLE if self._part else None

    def presence(self, used: float, now: float, is_leaving: bool = False) -> Presence:
        """What to say now. `used` is what was used since the last word, each token as the part of a second's
        limit that it is."""
        passed_s = max(now - self._said_at, 1e-3)
        self._weight += (1 - math.exp(-passed_s / SMOOTHING_S)) * (max(used, 0) / passed_s - self._weight)
        self._said_at = now
        self._turn += 1
        return Presence(
            turn=self._turn,
            held=self._part if now < self._known_until else 0,
            weight=self._weight,
            is_leaving=is_leaving,
            time_from=None if self._time is None else self._time + now - self._time_told_at,
            time_until=None if self._time is None else self._time + now - self._time_asked_at,
        )

    def told(self, standing: Standing, asked_at: float, now: float) -> None:
        """The answer to the last word, which was said at `asked_at`."""
        self.members = standing.members or self.members
        self._part = standing.part
        self._known_until = asked_at + KEEP_S
        self._time, self._time_asked_at, self._time_told_at = standing.time, asked_at, now
