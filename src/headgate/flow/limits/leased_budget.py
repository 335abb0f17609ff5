"""A member's part of a shared budget: leased tokens, which requests take without a round trip.

The caller sends `claim`s to the account, passes its grants to `granted`, and calls `disconnect` when the
account is unreachable. Then the rest of the lease is used, and after it a local share: the limit divided by
the known members, starting with this member's part of what was left. All of it is reported to the account
afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from headgate.flow.limits.account_view import AccountView
from headgate.flow.limits.claim_pace import ClaimPace
from headgate.flow.limits.lease import Lease
from headgate.flow.limits.lease_account import LEASE_S, Claim, Grant
from headgate.flow.limits.lease_demand import Demand
from headgate.flow.limits.local_share import LocalShare

TELL_S: Final = 1.0
"""The longest time before use is reported."""
LOOK_AGAIN_S: Final = 1.0
"""After this time, missing tokens may be available: other members give tokens back."""

Call = Callable[["LeasedBudget"], None]
"""Notifies the caller that a claim should be made soon."""


class LeasedBudget:
    """One direction of one route's limit, implementing `Budget`, in tokens. `now` is monotonic seconds."""

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
        """`account`: name of the account. `member`: unique to this budget. `members`: expected number of
        members until the account reports it."""
        self.account = account
        self.member = member
        self.is_strict = False
        """Whether everything is rejected while the account is unreachable."""
        self.is_called = False
        """Whether the caller was notified that a claim should be made."""
        self.is_closed = False
        """Whether no route needs it any more."""
        self._call = call
        self._lease = Lease()
        self._view = AccountView(limit, unit_s, now)
        self._demand = Demand(now)
        self._pace = ClaimPace(now)
        self._share = LocalShare(members, now)

    @property
    def limit(self) -> int:
        return self._view.limit

    @property
    def limit_per_s(self) -> float:
        return self._view.limit / self._view.unit_s

    @property
    def members(self) -> int:
        """Members of the account, as far as known."""
        return self._share.members

    # -- requests

    def take(self, tokens: int, now: float) -> bool:
        lease = self._lease
        held = lease.held - tokens
        if held >= 0 and now < lease.until:
            lease.held = held
            if held < self._pace.low:
                self._claim_more(now)
            return True
        return self._take_from_share(tokens, now)

    def overdraw(self, tokens: int, now: float) -> bool:
        if self._lease.held > 0 and now < self._lease.until:
            self.charge(tokens, now)
            return True
        share = self._share.budget
        if share is None or self.is_strict or not share.overdraw(tokens, now):
            return False
        self._lease.held -= tokens
        return True

    def _take_from_share(self, tokens: int, now: float) -> bool:
        lease, share = self._lease, self._share.budget
        lease.expire(now)
        if share is None or self.is_strict:
            return False
        if not share.take(tokens - max(lease.held, 0), now):
            return False
        lease.held -= tokens
        return True

    def give_back(self, tokens: int, now: float) -> None:
        lease, share = self._lease, self._share.budget
        if share is not None and lease.held < 0:
            # Use beyond the lease came from the share, and goes back there first.
            share.give_back(min(tokens, -lease.held), now)
        lease.held += tokens
        if self.is_closed:
            self._make_call()

    def charge(self, tokens: int, now: float) -> None:
        lease, share = self._lease, self._share.budget
        if share is not None and tokens > lease.held:
            share.charge(tokens - max(lease.held, 0), now)
        lease.held -= tokens
        if lease.held < self._pace.low:
            self._claim_more(now)

    def available(self, now: float) -> float:
        """Leased tokens plus the estimated rest of the account; negative is debt."""
        held = self._lease.held if now < self._lease.until else min(self._lease.held, 0)
        if self._share.budget is not None:
            share = 0.0 if self.is_strict else self._share.budget.available(now)
            return min(max(held, 0) + share, self.limit)
        return min(held + self._level(now), self.limit)

    def wait_s(self, tokens: int, now: float) -> float:
        if tokens > self.limit:
            return math.inf
        if self._share.budget is not None and not self.is_strict:
            wait_s = self._share.budget.wait_s(tokens - max(self._lease.held, 0), now)
            # The share is never that large, but the account may be, once it is back.
            return wait_s if wait_s < math.inf else LOOK_AGAIN_S
        if not self.lacks(tokens, now):
            return 0.0
        missing = tokens - self.available(now)
        return max(missing * self._view.unit_s / self.limit, max(self._pace.next_at - now, 0.0))

    def change(self, limit: int, unit_s: int, now: float) -> None:
        """Apply another limit at once. The level stays, up to the new limit."""
        self._view.set_level(min(self._level(now), limit), now)
        self._view.limit, self._view.unit_s = limit, unit_s
        self._share.resize(limit, unit_s, now)
        self._pace.hurry()
        self._make_call()

    def _level(self, now: float) -> float:
        """The estimated level of the account. While it is unreachable, the others are assumed to use its
        whole refill."""
        return self._view.filled(now) if self._share.budget is None else self._view.level

    # -- claims

    def lacks(self, tokens: int, now: float) -> bool:
        """Whether fewer tokens are on lease."""
        return self._lease.lacks(tokens, now)

    def ask(self, tokens: int, now: float, least: int | None = None) -> bool:
        """Request a claim of `tokens` for a request that got none; `least` would be enough. False if the
        account is known to have less."""
        least = tokens if least is None else least
        if self._share.budget is not None or not self._may_be_there(least, now):
            return False
        self._demand.wait_for(tokens, least)
        self._make_call()
        return True

    def _may_be_there(self, tokens: int, now: float) -> bool:
        """Whether the account may have the tokens, by its last report."""
        pace = self._pace
        if tokens > self.limit or (now < pace.next_at and tokens - max(self._lease.held, 0) >= pace.refused):
            return False
        return tokens <= self.available(now) or now - self._view.seen_at >= LOOK_AGAIN_S

    def _claim_more(self, now: float) -> None:
        if now >= self._pace.next_at:
            self._make_call()

    def _make_call(self) -> None:
        if not self.is_called:
            self.is_called = True
            self._call(self)

    def is_due(self, now: float) -> bool:
        """Whether to claim without demand: to report use, or to give the lease back."""
        if not self.has_reported_all:
            return now - self._pace.claimed_at >= TELL_S
        return self._lease.held != 0 and self._demand.is_idle(now)

    @property
    def is_settled(self) -> bool:
        """Whether it holds nothing and has reported everything."""
        return self._lease.held == 0 and self._lease.has_reported_all

    @property
    def has_reported_all(self) -> bool:
        return self._lease.has_reported_all

    @property
    def is_over(self) -> bool:
        """Whether the account needs no further claim from it, unless it calls."""
        return self.is_closed and self.is_settled and not self.is_called

    @property
    def used(self) -> int:
        """Tokens used since the start, less those given back."""
        return self._lease.used

    def claim(self, now: float) -> Claim:
        """The claim to send now. Tokens to be given back are no longer used."""
        lease, view, demand = self._lease, self._view, self._demand
        lease.expire(now)
        demand.learn(lease.used, now)
        want = 0 if self.is_closed else demand.wanted(view.limit, now)
        inflow = self._share.inflow(view.limit, view.unit_s, now)
        claim = Claim(
            member=self.member,
            turn=self._pace.claim(now),
            limit=view.limit,
            unit_s=view.unit_s,
            used=lease.used,
            covered=min(max(-lease.held, 0), math.floor(inflow)),
            told=lease.confirmed,
            granted=lease.granted,
            need=demand.need,
            least=demand.least,
            want=want,
            epoch=view.epoch,
            level=self._level(now),
            time_from=None if view.clock is None else view.clock.earliest(now),
            time_until=None if view.clock is None else view.clock.latest(now),
        )
        lease.shrink(want)
        self.is_called = False
        demand.forget_waiting()
        return claim

    def granted(self, claim: Claim, grant: Grant, now: float, members: int = 0) -> None:
        """Apply the grant of the last claim. `members`: there are at least so many, whatever it says."""
        claimed_at = self._pace.claimed_at
        self._share.restart_inflow(claimed_at)
        self._share.members = max(grant.members, members)
        self._lease.renew(grant.granted, grant.used, claimed_at + LEASE_S)
        self._view.learn(grant.epoch, grant.level, grant.time, claimed_at, now)
        self._pace.learn(claim.want, grant.granted - grant.used, grant.level, now)

    def has_enough_for_all(self, claim: Claim, now: float) -> bool:
        """Whether this grant also suffices for requests that arrived meanwhile; then they need no further
        claim."""
        if self.lacks(claim.need + self._demand.need, now):
            return False
        self._demand.forget_waiting()
        return True

    # -- without the account

    def disconnect(self, now: float, members: int = 0, fraction: float | None = None) -> None:
        """Use the local share of what was left, because the account is unreachable. The share is `fraction`
        of the limit, or that of one of all known members, which are at least `members`."""
        share, view = self._share, self._view
        share.members = max(share.members, members)
        share.fraction = fraction
        if share.budget is not None:
            return
        view.set_level(view.filled(now), now)
        share.begin(view.level, view.limit, view.unit_s, now)
        self._demand.forget_waiting()

    def reconnect(self, now: float) -> None:
        """The account is reachable again."""
        if self._share.budget is None:
            return
        self._share.end(self._view.limit, self._view.unit_s, now)
        self._view.seen_at = now
        self._pace.hurry()
        if not self.has_reported_all:
            self._make_call()

    def divide(self, members: int, now: float) -> None:
        """Use the share of one of `members` from now on; what was used stays used."""
        self._share.members = members
        self._share.resize(self._view.limit, self._view.unit_s, now)

    @property
    def is_parted(self) -> bool:
        return self._share.budget is not None

    @property
    def is_cut_off(self) -> bool:
        """Whether it rejects only because the account is unreachable."""
        return self.is_strict and self._share.budget is not None

    def close(self) -> None:
        """Give the lease back and report the use, because nobody uses the budget any more."""
        self.is_closed = True
        self._make_call()

    def statistics(self, now: float) -> dict[str, float | bool]:
        lease = self._lease
        return {
            "limit": self.limit,
            "available": self.available(now),
            "leased": lease.held if now < lease.until else 0,
            "used": lease.used,
            "untold": lease.used - lease.confirmed,
            "members": self.members,
            "parted": self.is_parted,
        }
