"""The part of every limit that each gateway uses while they cannot share accounts.

Gateways regularly report their recent use to a common book, which assigns them parts in proportion, with a
floor for those without use. A part is a promise: the gateway holds it until it reports another one. So parts
never add up to more than the whole, even if gateways join, leave, or receive a response late or never.
`quota/redis_members.py` keeps the same book inside Redis.
"""

from __future__ import annotations

import math

import msgspec

WHOLE = 1_000_000
"""Parts are integers out of this total."""
FLOOR = 0.2
"""This fraction of the whole is divided evenly, the rest by use."""
RESERVE = WHOLE // 32
"""Kept for new members until the others have given up some."""
PRESENT_S = 10.0
"""A member silent for longer is not counted. Its part stays promised for KEEP_S."""
KEEP_S = 20.0
GRACE_S = 3.0
"""How much later than the gateway the book ends a promise."""
SMOOTHING_S = 10.0
"""Averaging time of the use."""


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a gateway."""

    turn: int
    """Sequence number: a report that arrives after a later one is ignored."""
    held: int
    """The part that it uses, of WHOLE; 0 for none."""
    weight: float
    """Its recent use, relative to all limits."""
    is_leaving: bool = False
    time_from: float | None = None
    """As in Claim."""
    time_until: float | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The book's response."""

    members: int
    """Number of members; 0 if unknown."""
    part: int = 0
    """The part that the gateway may use, of WHOLE; 0 if unknown: then use equal parts."""
    time: float = 0.0


class _Member:
    __slots__ = ("promised", "reported_at", "turn", "weight")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.promised = 0
        self.weight = 0.0
        self.reported_at = -math.inf


class ShareBook:
    """The book. A new one gives nobody more than it reports to hold, until all have had time to report."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._members: dict[str, _Member] = {}

    def note(self, name: str, presence: Presence, now: float) -> Standing:
        """Record a gateway's report, and return its part."""
        self._members = {
            name: member
            for name, member in self._members.items()
            if now - member.reported_at <= KEEP_S + GRACE_S
        }
        if presence.is_leaving:
            self._members.pop(name, None)
            return Standing(members=len(self._members), time=now)
        member = self._members.setdefault(name, _Member(presence.turn - 1))
        if presence.turn <= member.turn:
            return Standing(members=self._present(now), part=presence.held, time=now)
        member.turn, member.weight, member.reported_at = presence.turn, presence.weight, now
        part = presence.held if now - self._since <= KEEP_S + GRACE_S else self._part(member, now)
        member.promised = max(presence.held, part)
        return Standing(members=self._present(now), part=part, time=now)

    def _present(self, now: float) -> int:
        return sum(now - member.reported_at <= PRESENT_S for member in self._members.values())

    def _part(self, member: _Member, now: float) -> int:
        members = self._members.values()
        present = [each for each in members if now - each.reported_at <= PRESENT_S]
        room = WHOLE - sum(each.promised for each in members if each is not member)
        silent = sum(each.promised for each in members) - sum(each.promised for each in present)
        weights = sum(each.weight for each in present)
        even = 1 / len(present)
        by_use = member.weight / weights if weights > 0 else even
        fair = math.floor((WHOLE - RESERVE - silent) * (FLOOR * even + (1 - FLOOR) * by_use))
        return max(min(fair, max(room - RESERVE, room // 2)), 0)


class Share:
    """The gateway's side. `now` is monotonic seconds."""

    def __init__(self, now: float) -> None:
        self.members = 0
        """Number of members last reported by the book."""
        self._part = 0
        self._turn = 0
        self._weight = 0.0
        self._reported_at = now
        self._known_until = -math.inf
        self._time: float | None = None
        self._time_sent_at = self._time_received_at = now

    @property
    def fraction(self) -> float | None:
        """Fraction of each limit; None if none was promised."""
        return self._part / WHOLE if self._part else None

    def presence(self, used: float, now: float, is_leaving: bool = False) -> Presence:
        """The report to send now. `used`: use since the last report, each token as a fraction of its limit
        per second."""
        passed_s = max(now - self._reported_at, 1e-3)
        self._weight += (1 - math.exp(-passed_s / SMOOTHING_S)) * (max(used, 0) / passed_s - self._weight)
        self._reported_at = now
        self._turn += 1
        return Presence(
            turn=self._turn,
            held=self._part if now < self._known_until else 0,
            weight=self._weight,
            is_leaving=is_leaving,
            time_from=None if self._time is None else self._time + now - self._time_received_at,
            time_until=None if self._time is None else self._time + now - self._time_sent_at,
        )

    def told(self, standing: Standing, asked_at: float, now: float) -> None:
        """Apply the response to the last report, which was sent at `asked_at`."""
        self.members = standing.members or self.members
        self._part = standing.part
        self._known_until = asked_at + KEEP_S
        self._time, self._time_sent_at, self._time_received_at = standing.time, asked_at, now
