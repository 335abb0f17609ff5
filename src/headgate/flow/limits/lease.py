"""A member's part of a shared budget: tokens on lease, that requests take without asking anybody.

The shell carries `claim`s to the account and its grants back (`granted`), and says when the account is out
of reach (`part`): then what is left of the lease is used, and after it the local share, which is the limit
divided by the members that there were, beginning with this member's part of what was left. All of it is told
to the account afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from headgate.flow.limits.budget import LocalBudget
from headgate.flow.limits.lease_account import LEASE_S, Claim, Grant
from headgate.flow.limits.lease_demand import Demand

LARGEST_SHARE = 16
"""A lease is at most this fraction of the limit, unless requests wait for more."""
TELL_S = 1.0
"""What was used is told after this time at the latest,"""
IDLE_S = 5.0
"""and where nothing was used for so long, the lease is given back."""
PAUSE_S = 0.05
"""Between a claim that got less than it needed or would have liked and the next that needs as much: while the
account is all but empty, what comes in is fetched in parts that suffice for some requests."""
LOOK_AGAIN_S = 1.0
"""After this time, what was not there may be: others give tokens back."""

Call = Callable[["LeasedBudget"], None]
"""Tells the shell that a claim should be made soon."""


class LeasedBudget:
    """One direction of one route's limit, as `Budget` has it, in tokens. `now` is monotonic seconds."""

    def __init__(
        self,
        account: str,
        member: str,
        limit: int,
        unit_s: int,
        now: float,
        call: Call,
        members: int = 1,
    ) -> None:
        """Of the account of this name, under a name that no other budget ever has; `members` is how many
        there may be until the account says."""
        self.account = account
        self.member = member
        self.limit = limit
        self.members = members
        self.fraction: float | None = None
        """Of the limit, by which it goes while the account is out of reach; without it, by one member's."""
        self.is_strict = False
        """Whether nothing goes without the account."""
        self.is_called = False
        """Whether the shell was told that a claim should be made."""
        self._unit_s = unit_s
        self._call = call
        self._held = 0
        """Granted and not used; negative is what was used beyond it."""
        self._granted = self._told = self._turn = 0
        self._until = -math.inf
        self._low = 0
        """With less than this, more is asked for."""
        self._need = self._least = 0
        self._ask_at = -math.inf
        """Before this time, asking for more is of no use,"""
        self._refused = 0
        """or for so many, if requests wait for them."""
        self.is_closed = False
        """Whether no route needs it any more."""
        self._epoch = ""
        self._level = float(limit)
        self._level_at = self._asked_at = now
        self._time: float | None = None
        """The account's, when it last answered,"""
        self._time_asked_at = now
        """which was after this."""
        self._time_ahead = -math.inf
        """The account's time is at least so much ahead of ours. The most that any answer has shown: one whose
        claim was on its way for long shows less, as the account did not know how long."""
        self._demand = Demand(now)
        self._share: LocalBudget | None = None
        """What it goes by while the account is out of reach."""
        self._inflow, self._parted_at = 0.0, now
        """What came into that since the account last answered, until it was last cut off."""

    # -- requests

    def take(self, tokens: int, now: float) -> bool:
        held = self._held - tokens
        if held >= 0 and now < self._until:
            self._held = held
            if held < self._low and not self.is_called and now >= self._ask_at:
                self._make_call()
            return True
        return self._take_of_share(tokens, now)

    def overdraw(self, tokens: int, now: float) -> bool:
        if self._held > 0 and now < self._until:
            self.charge(tokens, now)
            return True
        share = self._share
        if share is None or self.is_strict or not share.overdraw(tokens, now):
            return False
        self._held -= tokens
        return True

    def _take_of_share(self, tokens: int, now: float) -> bool:
        self._end_lease(now)
        share = self._share
        if share is None or self.is_strict:
            return False
        if not share.take(tokens - max(self._held, 0), now):
            return False
        self._held -= tokens
        return True

    def give_back(self, tokens: int, now: float) -> None:
        if self._share is not None and self._held < 0:
            # What was used beyond the lease came from the share, and goes back there first.
            self._share.give_back(min(tokens, -self._held), now)
        self._held += tokens
        if self.is_closed and not self.is_called:
            self._make_call()

    def charge(self, tokens: int, now: float) -> None:
        if self._share is not None and tokens > self._held:
            self._share.charge(tokens - max(self._held, 0), now)
        self._held -= tokens
        if self._held < self._low and not self.is_called and now >= self._ask_at:
            self._make_call()

    def available(self, now: float) -> float:
        """What it has and what is left for all, as far as it knows; negative is debt."""
        held = self._held if now < self._until else min(self._held, 0)
        if self._share is not None:
            share = 0.0 if self.is_strict else self._share.available(now)
            return min(max(held, 0) + share, self.limit)
        return min(held + self._filled(now), self.limit)

    def wait_s(self, tokens: int, now: float) -> float:
        if tokens > self.limit:
            return math.inf
        if self._share is not None and not self.is_strict:
            wait_s = self._share.wait_s(tokens - max(self._held, 0), now)
            # What no share ever has, the account may have as soon as it is back.
            return wait_s if wait_s < math.inf else LOOK_AGAIN_S
        if not self.lacks(tokens, now):
            return 0.0
        missing = tokens - self.available(now)
        return max(missing * self._unit_s / self.limit, max(self._ask_at - now, 0.0))

    def change(self, limit: int, unit_s: int, now: float) -> None:
        """Goes on by another limit at once. What is there stays, as far as the new limit has room for it."""
        self._level = min(self._filled(now), limit)
        self._level_at = now
        self.limit, self._unit_s = limit, unit_s
        if self._share is not None:
            self._share.change(self._part_of_limit(), unit_s, now)
        self._ask_at = -math.inf
        if not self.is_called:
            self._make_call()

    # -- asking

    def lacks(self, tokens: int, now: float) -> bool:
        """Whether fewer are on lease."""
        return self._held < tokens or now >= self._until

    def ask(self, tokens: int, now: float, least: int | None = None) -> bool:
        """For a request that got nothing: has so many claimed, of which `least` would do. False if those are
        known not to be there."""
        least = tokens if least is None else least
        if self._share is not None or not self._may_be_there(least, now):
            return False
        self._need += tokens
        self._least = min(self._least or least, least)
        if not self.is_called:
            self._make_call()
        return True

    def _may_be_there(self, tokens: int, now: float) -> bool:
        """Whether the account may have so many, by what it had when it last said so."""
        if tokens > self.limit or (now < self._ask_at and tokens - max(self._held, 0) >= self._refused):
            return False
        return tokens <= self.available(now) or now - self._level_at >= LOOK_AGAIN_S

    def _make_call(self) -> None:
        self.is_called = True
        self._call(self)

    def is_due(self, now: float) -> bool:
        """Whether a claim should be made though nobody asks: to tell of use, or to give the lease back."""
        if not self.has_told_all:
            return now - self._asked_at >= TELL_S
        return self._held != 0 and now - self._demand.used_at >= IDLE_S

    @property
    def is_settled(self) -> bool:
        """Whether it holds nothing and has told all."""
        return self._held == 0 and self.has_told_all

    @property
    def has_told_all(self) -> bool:
        return self.used == self._told

    @property
    def is_over(self) -> bool:
        """Whether the account need hear nothing of it any more, unless it calls."""
        return self.is_closed and self.is_settled and not self.is_called

    @property
    def used(self) -> int:
        """Tokens since its start, less what was given back."""
        return self._granted - self._held

    @property
    def limit_per_s(self) -> float:
        return self.limit / self._unit_s

    def wants_lease(self, now: float) -> int:
        """Tokens that it would like to have on lease, by what was used of late and what is waited for."""
        if self.is_closed or (now - self._demand.used_at >= IDLE_S and not self._need):
            return 0
        return max(min(self._demand.tokens, self.limit // LARGEST_SHARE), self._need)

    def claim(self, now: float) -> Claim:
        """What to tell the account now. What is to be given back is not used from now on."""
        self._end_lease(now)
        self._demand.learn(self.used, self._need > 0, self._least, now)
        want = self.wants_lease(now)
        self._turn += 1
        claim = Claim(
            member=self.member,
            turn=self._turn,
            limit=self.limit,
            unit_s=self._unit_s,
            used=self.used,
            covered=min(max(-self._held, 0), math.floor(self._covered(now))),
            told=self._told,
            granted=self._granted,
            need=self._need,
            least=self._least,
            want=want,
            epoch=self._epoch,
            level=self._filled(now),
            time_from=None if self._time is None else now + self._time_ahead,
            time_until=None if self._time is None else self._time_until(now),
        )
        surplus = self._held - want
        if surplus > 0:
            self._held -= surplus
            self._granted -= surplus
        self.is_called = False
        self._asked_at = now
        self._need = self._least = 0
        return claim

    def _time_until(self, now: float) -> float:
        assert self._time is not None
        return max(self._time + now - self._time_asked_at, now + self._time_ahead)

    def _covered(self, now: float) -> float:
        """Tokens that came into its shares since the account last answered."""
        if self._share is None:
            return self._inflow
        return self._inflow + (now - self._parted_at) * self._part_of_limit() / self._unit_s

    def granted(self, claim: Claim, grant: Grant, now: float) -> None:
        """The account's answer to the last claim, which was made at `_asked_at`."""
        self._inflow, self._parted_at = 0.0, self._asked_at
        used = self.used
        self._granted, self._told = grant.granted, grant.used
        self._held = self._granted - used
        self._until = self._asked_at + LEASE_S
        ahead = grant.time - now
        self._time_ahead = max(ahead, self._time_ahead) if grant.epoch == self._epoch else ahead
        self._time, self._time_asked_at = grant.time, self._asked_at
        self._epoch, self._level, self._level_at = grant.epoch, grant.level, now
        self.members = grant.members
        self._pause(claim, grant, now)

    def has_enough_for_all(self, claim: Claim, now: float) -> bool:
        """Whether the grant of this claim suffices for those too that came meanwhile; then no more
        is claimed for them."""
        if self.lacks(claim.need + self._need, now):
            return False
        self._need = self._least = 0
        return True

    def _pause(self, claim: Claim, grant: Grant, now: float) -> None:
        """Sets below what and from when on more is asked for."""
        had = grant.granted - grant.used
        self._low = claim.want // 2
        self._refused = max(math.floor(grant.level), 0) + 1
        self._ask_at = -math.inf
        if had < claim.want:
            self._ask_at = now + PAUSE_S

    def _end_lease(self, now: float) -> None:
        """What the account knows nothing of is not ours any more: it takes back what it gave."""
        if now >= self._until:
            used = self.used
            self._granted = self._told
            self._held = self._granted - used

    # -- without the account

    def disconnect(self, now: float) -> None:
        """The account is out of reach: goes on by the local share of what was left."""
        if self._share is not None:
            return
        self._level, self._level_at = self._filled(now), now
        self._parted_at = now
        part = self._part_of_limit()
        share = LocalBudget(part, self._unit_s, now)
        share.charge(max(part - self._share_of(self._level), 0), now)
        self._share = share
        self._need = self._least = 0

    def reconnect(self, now: float) -> None:
        """The account is there again."""
        if self._share is None:
            return
        self._inflow = self._covered(now)
        self._share = None
        self._level_at = now
        self._ask_at = -math.inf
        if not self.has_told_all and not self.is_called:
            self._make_call()

    def divide(self, members: int, now: float) -> None:
        """Goes by the share of one of so many from now on; what was used of it stays used."""
        self.members = members
        if self._share is not None:
            self._share.change(self._part_of_limit(), self._unit_s, now)

    @property
    def is_parted(self) -> bool:
        return self._share is not None

    @property
    def is_cut_off(self) -> bool:
        """Whether what it refuses is refused only because the account is out of reach."""
        return self.is_strict and self._share is not None

    def close(self) -> None:
        """Nobody takes from it any more: the lease is given back, and what was used is told."""
        self.is_closed = True
        if not self.is_called:
            self._make_call()

    def _share_of(self, tokens: float) -> int:
        return math.floor(tokens / self.members if self.fraction is None else tokens * self.fraction)

    def _part_of_limit(self) -> int:
        return max(self._share_of(self.limit), 1)

    def _filled(self, now: float) -> float:
        """What is left for all, if nobody else has taken anything since it was told. While the account is out
        of reach, the others are taken to use all that comes in."""
        if self._share is not None:
            return self._level
        return min(self._level + (now - self._level_at) * self.limit / self._unit_s, self.limit)

    def statistics(self, now: float) -> dict[str, float | bool]:
        return {
            "limit": self.limit,
            "available": self.available(now),
            "leased": self._held if now < self._until else 0,
            "used": self.used,
            "untold": self.used - self._told,
            "members": self.members,
            "parted": self.is_parted,
        }
