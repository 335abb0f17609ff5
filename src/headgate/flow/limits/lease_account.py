"""A budget that several processes share: what is left of it, and what each of them has on lease.

Members take tokens out of the account in leases and use those without asking. All that they say is cumulative
(tokens used, tokens granted, since their start), so that a claim may be repeated, lost or answered in vain
without a token lost or created. `quota/redis_script.py` does the same inside Redis.
"""

from __future__ import annotations

import math

import msgspec

from headgate.flow.limits.budget import LocalBudget

LEASE_S = 10.0
"""How long a lease lasts if its member says nothing; then what was not used of it returns to the account."""
GRACE_S = 1.0
"""How much later than the member the account takes a lease to be over: nobody uses what has returned."""
SPILL_S = 10.0
"""For so long it is known what did not fit into the full bucket: what members used meanwhile by their shares,
of which they tell now, was covered by that."""
FORGET_S = 600.0
"""A member that was silent for so long is forgotten. If it comes back, it says itself what it used since."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a member says and asks. Tokens all."""

    member: str
    turn: int
    """Counts its claims: one that arrives after a later one says nothing."""
    limit: int
    unit_s: int
    used: int
    """Used since its start, less what was given back."""
    covered: int = 0
    """As much of what was used beyond the lease as came into the member's share meanwhile, while the account
    was out of reach."""
    told: int
    """As much of that as the account has confirmed."""
    granted: int
    """Granted since its start, as far as it knows; what `told` is if its lease is over."""
    need: int = 0
    """What requests wait for."""
    least: int = 0
    """What the smallest of them waits for: less is of no use."""
    want: int = 0
    """What it would like to have on lease; less than it has gives the rest back."""
    epoch: str = ""
    """Of the account that it knows."""
    level: float = math.inf
    """What is in that, as it believes."""
    time_from: float | None = None
    """By the member's clock it is as late as this in the account's time,"""
    time_until: float | None = None
    """and no later than this, but for the time that the claim is on its way. An account whose clock may jump
    goes by it."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a claim."""

    epoch: str
    used: int
    """What is now known to be used."""
    granted: int
    level: float
    """What is left for all, after this; negative is debt."""
    members: int
    """Who said something lately, the claimant among them."""
    time: float = 0.0
    """The account's, in seconds since whenever; it never goes back."""


class _Member:
    """A member's lease: `granted - used` tokens, until a time."""

    __slots__ = ("granted", "heard_at", "turn", "used")

    def __init__(self, claim: Claim) -> None:
        self.turn = claim.turn - 1
        self.used = claim.told
        self.granted = claim.granted
        self.heard_at = 0.0

    @property
    def outstanding(self) -> int:
        return self.granted - self.used


class LeaseAccount:
    """The account over a budget. `epoch` names this one account: another in its place knows no leases."""

    def __init__(self, budget: LocalBudget, epoch: str) -> None:
        self.budget = budget
        self.epoch = epoch
        self._members: dict[str, _Member] = {}
        self._spilled, self._spilled_at = 0.0, -math.inf

    def claim(self, claim: Claim, now: float) -> Grant:
        """Takes down what a member used, and changes its lease as it asks and as the budget allows."""
        self._note_spilled(self.budget.overflow(now), now)
        is_other = bool(claim.epoch) and claim.epoch != self.epoch
        if is_other:
            self._lower_to(claim.level, now)
        self._end_leases(now)
        member = self._members.get(claim.member)
        if member is None:
            member = self._members[claim.member] = _Member(claim)
        if claim.turn > member.turn:
            member.turn = claim.turn
            member.heard_at = now
            self._note_used(member, claim, is_other, now)
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
        """An account whose data were lost begins with what its members remember of the one before."""
        surplus = self.budget.available(now) - max(level, 0)
        if surplus > 0:
            self.budget.charge(math.ceil(surplus), now)

    def _end_leases(self, now: float) -> None:
        for name, member in list(self._members.items()):
            silent_s = now - member.heard_at
            if silent_s > LEASE_S + GRACE_S and member.outstanding:
                self._return(member, member.outstanding, now)
            if silent_s > FORGET_S:
                del self._members[name]

    def _present(self, now: float) -> int:
        return sum(now - member.heard_at <= LEASE_S + GRACE_S for member in self._members.values())

    def _note_spilled(self, tokens: float, now: float) -> None:
        """Not summed up: what came in before members lost sight of the account covers nothing."""
        if now - self._spilled_at > SPILL_S:
            self._spilled = 0.0
        if tokens > self._spilled:
            self._spilled, self._spilled_at = tokens, now

    def _note_used(self, member: _Member, claim: Claim, is_other: bool, now: float) -> None:
        """What was used beyond the lease is the account's debt, but for what came in for it: that is
        not in the account, if it had no room or is a new one."""
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

    What it wants, which follows its use, but at most half of what is left: so leases get small as the budget
    runs out, and few tokens lie idle with one member while another needs them. What requests wait for, it
    gets all the same, if it is there.
    """
    needed = max(claim.need - held, 0)
    if needed and held + free < claim.least:
        return 0
    return min(claim.want - held, max(min(needed, free), free // 2))
