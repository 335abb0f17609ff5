"""A shared budget: its level, and the lease of each member.

Members lease tokens from the account and use them without a round trip. All their figures are cumulative
(tokens used and granted since their start), so a claim may be repeated or lost, or its grant may be lost,
without losing or creating tokens. `quota/redis_script.py` does the same inside Redis.
"""

from __future__ import annotations

import math

import msgspec

from headgate.flow.limits.budget import LocalBudget

LEASE_S = 10.0
"""Life of a lease without a claim; then its unused tokens return to the account."""
GRACE_S = 1.0
"""How much later than the member the account ends a lease, so that nobody uses returned tokens."""
SPILL_S = 10.0
"""How long the overflow of a full bucket is remembered: it covers what members used from their local shares
meanwhile and report now."""
FORGET_S = 600.0
"""After so much silence, a member is forgotten. If it comes back, it reports itself what it has used
since."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A member's report and request. All amounts are in tokens."""

    member: str
    turn: int
    """Sequence number: a claim that arrives after a later one is ignored."""
    limit: int
    unit_s: int
    used: int
    """Used since its start, less what was given back."""
    covered: int = 0
    """The part of the use beyond the lease that came into the member's local share while the account was
    unreachable."""
    told: int
    """The part of `used` that the account has confirmed."""
    granted: int
    """Granted since its start, as far as the member knows; `told` if its lease has expired."""
    need: int = 0
    """Tokens that requests wait for."""
    least: int = 0
    """Tokens that the smallest of them waits for: less is useless."""
    want: int = 0
    """Tokens wanted on lease; if less than it has, the rest is given back."""
    epoch: str = ""
    """The account that the member knows."""
    level: float = math.inf
    """The level of that account, as the member believes."""
    time_from: float | None = None
    """The account's time by the member's clock, at least."""
    time_until: float | None = None
    """The same, at most, except for the time that the claim travels. An account whose clock may jump uses
    both."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a claim."""

    epoch: str
    used: int
    """Use that is now confirmed."""
    granted: int
    level: float
    """What is left for all after this grant; negative is debt."""
    members: int
    """Members that sent a claim recently, including this one."""
    time: float = 0.0
    """The account's monotonic time, in seconds since an arbitrary start."""


class _Member:
    """A member's lease: `granted - used` tokens, for a limited time."""

    __slots__ = ("claimed_at", "granted", "turn", "used")

    def __init__(self, claim: Claim) -> None:
        self.turn = claim.turn - 1
        self.used = claim.told
        self.granted = claim.granted
        self.claimed_at = 0.0

    @property
    def outstanding(self) -> int:
        return self.granted - self.used


class LeaseAccount:
    """The account over a budget. `epoch` identifies it: an account that replaces it knows no leases."""

    def __init__(self, budget: LocalBudget, epoch: str) -> None:
        self.budget = budget
        self.epoch = epoch
        self._members: dict[str, _Member] = {}
        self._spilled, self._spilled_at = 0.0, -math.inf

    def claim(self, claim: Claim, now: float) -> Grant:
        """Record a member's use, and change its lease as it asks and as the budget allows."""
        self._record_overflow(self.budget.overflow(now), now)
        is_other = bool(claim.epoch) and claim.epoch != self.epoch
        if is_other:
            self._lower_to(claim.level, now)
        self._end_leases(now)
        member = self._members.get(claim.member)
        if member is None:
            member = self._members[claim.member] = _Member(claim)
        if claim.turn > member.turn:
            member.turn = claim.turn
            member.claimed_at = now
            self._record_use(member, claim, is_other, now)
            self._change_lease(member, claim, now)
        return Grant(
            epoch=self.epoch,
            used=member.used,
            granted=member.granted,
            level=self.budget.available(now),
            members=self._present(now),
            time=now,
        )

    def _lower_to(self, level: float, now: float) -> None:
        """Lower the level of an account whose data were lost to what its members remember."""
        surplus = self.budget.available(now) - max(level, 0)
        if surplus > 0:
            self.budget.charge(math.ceil(surplus), now)

    def _end_leases(self, now: float) -> None:
        for name, member in list(self._members.items()):
            silent_s = now - member.claimed_at
            if silent_s > LEASE_S + GRACE_S and member.outstanding:
                self._return(member, member.outstanding, now)
            if silent_s > FORGET_S:
                del self._members[name]

    def _present(self, now: float) -> int:
        return sum(now - member.claimed_at <= LEASE_S + GRACE_S for member in self._members.values())

    def _record_overflow(self, tokens: float, now: float) -> None:
        """Record refill beyond the limit. Kept as a maximum, not a sum: refill from before a member lost the
        account covers nothing."""
        if now - self._spilled_at > SPILL_S:
            self._spilled = 0.0
        if tokens > self._spilled:
            self._spilled, self._spilled_at = tokens, now

    def _record_use(self, member: _Member, claim: Claim, is_other: bool, now: float) -> None:
        """Charge use beyond the lease, except for what its refill covers: that refill is not in the account
        if the bucket was full or the account is new."""
        member.used = claim.used
        beyond = -member.outstanding
        if beyond > 0:
            covered = min(beyond, claim.covered)
            if not is_other:
                covered = min(covered, math.floor(self._spilled))
                self._spilled -= covered
            self.budget.charge(beyond - covered, now)
            member.granted = claim.used

    def _change_lease(self, member: _Member, claim: Claim, now: float) -> None:
        held = member.outstanding
        if claim.want < held:
            self._return(member, held - claim.want, now)
            return
        free = max(math.floor(self.budget.available(now)), 0)
        given = granted(held, claim, free)
        if given:
            self.budget.charge(given, now)
            member.granted += given

    def _return(self, member: _Member, tokens: int, now: float) -> None:
        member.granted -= tokens
        self.budget.give_back(tokens, now)

    def statistics(self, now: float) -> dict[str, float]:
        return {
            "level": self.budget.available(now),
            "leased": sum(member.outstanding for member in self._members.values()),
            "members": self._present(now),
        }


def granted(held: int, claim: Claim, free: int) -> int:
    """How many of `free` tokens a member gets that has `held`.

    It gets what it wants, which follows its use, but at most half of what is left: so leases shrink as the
    budget runs out, and few tokens lie idle with one member while another needs them. Tokens that requests
    wait for are granted in full, if there are enough.
    """
    needed = max(claim.need - held, 0)
    if needed and held + free < claim.least:
        return 0
    return min(claim.want - held, max(min(needed, free), free // 2))
