"""A member's part of a shared budget: leased tokens, which requests take without a round trip.

The caller sends `claim`s to the account, passes its grants to `granted`, and calls `disconnect` when the
account is unreachable. Then the rest of the lease is used, and after it a local share: the limit divided by
the known members, starting with this member's part of what was left. All of it is reported to the account
afterwards.
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
"""The longest time before use is reported."""
IDLE_S = 5.0
"""A lease without use for so long is given back."""
PAUSE_S = 0.05
"""Pause after a claim that got less than it needed or wanted, before the next one for as much. While the
account is almost empty, its refill is fetched in portions that suffice for some requests."""
LOOK_AGAIN_S = 1.0
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
        self.limit = limit
        self.members = members
        self.fraction: float | None = None
        """Local share of the limit while the account is unreachable; None is 1/members."""
        self.is_strict = False
        """Whether everything is rejected while the account is unreachable."""
        self.is_called = False
        """Whether the caller was notified that a claim should be made."""
        self._unit_s = unit_s
        self._call = call
        self._held = 0
        """Granted and not used; negative is use beyond the grant."""
        self._granted = self._told = self._turn = 0
        self._until = -math.inf
        self._low = 0
        """Claim more when less than this is held."""
        self._need = self._least = 0
        self._ask_at = -math.inf
        """Before this time, claims for `_refused` tokens or more are pointless."""
        self._refused = 0
        """The number of tokens that the account cannot grant before `_ask_at`."""
        self.is_closed = False
        """Whether no route needs it any more."""
        self._epoch = ""
        self._level = float(limit)
        self._level_at = self._claimed_at = now
        self._time: float | None = None
        """The account's time in its last grant."""
        self._time_sent_at = now
        """When the claim of that grant was sent."""
        self._time_ahead = -math.inf
        """Minimum lead of the account's clock over ours: the largest that any grant has shown. A slow claim
        shows less, because the account does not know its delay."""
        self._demand = Demand(now)
        self._share: LocalBudget | None = None
        """The local budget while the account is unreachable."""
        self._inflow, self._parted_at = 0.0, now
        """Tokens that came into it since the last grant, until the last disconnect."""

    # -- requests

    def take(self, tokens: int, now: float) -> bool:
        held = self._held - tokens
        if held >= 0 and now < self._until:
            self._held = held
            if held < self._low and not self.is_called and now >= self._ask_at:
                self._make_call()
            return True
        return self._take_from_share(tokens, now)

    def overdraw(self, tokens: int, now: float) -> bool:
        if self._held > 0 and now < self._until:
            self.charge(tokens, now)
            return True
        share = self._share
        if share is None or self.is_strict or not share.overdraw(tokens, now):
            return False
        self._held -= tokens
        return True

    def _take_from_share(self, tokens: int, now: float) -> bool:
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
            # Use beyond the lease came from the share, and goes back there first.
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
        """Leased tokens plus the estimated rest of the account; negative is debt."""
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
            # The share is never that large, but the account may be, once it is back.
            return wait_s if wait_s < math.inf else LOOK_AGAIN_S
        if not self.lacks(tokens, now):
            return 0.0
        missing = tokens - self.available(now)
        return max(missing * self._unit_s / self.limit, max(self._ask_at - now, 0.0))

    def change(self, limit: int, unit_s: int, now: float) -> None:
        """Apply another limit at once. The level stays, up to the new limit."""
        self._level = min(self._filled(now), limit)
        self._level_at = now
        self.limit, self._unit_s = limit, unit_s
        if self._share is not None:
            self._share.change(self._part_of_limit(), unit_s, now)
        self._ask_at = -math.inf
        if not self.is_called:
            self._make_call()

    # -- claims

    def lacks(self, tokens: int, now: float) -> bool:
        """Whether fewer tokens are on lease."""
        return self._held < tokens or now >= self._until

    def ask(self, tokens: int, now: float, least: int | None = None) -> bool:
        """Request a claim of `tokens` for a request that got none; `least` would be enough. False if the
        account is known to have less."""
        least = tokens if least is None else least
        if self._share is not None or not self._may_be_there(least, now):
            return False
        self._need += tokens
        self._least = min(self._least or least, least)
        if not self.is_called:
            self._make_call()
        return True

    def _may_be_there(self, tokens: int, now: float) -> bool:
        """Whether the account may have the tokens, by its last report."""
        if tokens > self.limit or (now < self._ask_at and tokens - max(self._held, 0) >= self._refused):
            return False
        return tokens <= self.available(now) or now - self._level_at >= LOOK_AGAIN_S

    def _make_call(self) -> None:
        self.is_called = True
        self._call(self)

    def is_due(self, now: float) -> bool:
        """Whether to claim without demand: to report use, or to give the lease back."""
        if not self.has_reported_all:
            return now - self._claimed_at >= TELL_S
        return self._held != 0 and now - self._demand.used_at >= IDLE_S

    @property
    def is_settled(self) -> bool:
        """Whether it holds nothing and has reported everything."""
        return self._held == 0 and self.has_reported_all

    @property
    def has_reported_all(self) -> bool:
        return self.used == self._told

    @property
    def is_over(self) -> bool:
        """Whether the account needs no further claim from it, unless it calls."""
        return self.is_closed and self.is_settled and not self.is_called

    @property
    def used(self) -> int:
        """Tokens used since the start, less those given back."""
        return self._granted - self._held

    @property
    def limit_per_s(self) -> float:
        return self.limit / self._unit_s

    def wants_lease(self, now: float) -> int:
        """Tokens that it wants on lease, by recent use and by the requests that wait."""
        if self.is_closed or (now - self._demand.used_at >= IDLE_S and not self._need):
            return 0
        return max(min(self._demand.tokens, self.limit // LARGEST_SHARE), self._need)

    def claim(self, now: float) -> Claim:
        """The claim to send now. Tokens to be given back are no longer used."""
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
        self._claimed_at = now
        self._need = self._least = 0
        return claim

    def _time_until(self, now: float) -> float:
        assert self._time is not None
        return max(self._time + now - self._time_sent_at, now + self._time_ahead)

    def _covered(self, now: float) -> float:
        """Tokens that came into its shares since the last grant."""
        if self._share is None:
            return self._inflow
        return self._inflow + (now - self._parted_at) * self._part_of_limit() / self._unit_s

    def granted(self, claim: Claim, grant: Grant, now: float) -> None:
        """Apply the grant of the last claim, which was made at `_claimed_at`."""
        self._inflow, self._parted_at = 0.0, self._claimed_at
        used = self.used
        self._granted, self._told = grant.granted, grant.used
        self._held = self._granted - used
        self._until = self._claimed_at + LEASE_S
        ahead = grant.time - now
        self._time_ahead = max(ahead, self._time_ahead) if grant.epoch == self._epoch else ahead
        self._time, self._time_sent_at = grant.time, self._claimed_at
        self._epoch, self._level, self._level_at = grant.epoch, grant.level, now
        self.members = grant.members
        self._pause(claim, grant, now)

    def has_enough_for_all(self, claim: Claim, now: float) -> bool:
        """Whether this grant also suffices for requests that arrived meanwhile; then they need no further
        claim."""
        if self.lacks(claim.need + self._need, now):
            return False
        self._need = self._least = 0
        return True

    def _pause(self, claim: Claim, grant: Grant, now: float) -> None:
        """Set the level below which, and the time from which, to claim more."""
        had = grant.granted - grant.used
        self._low = claim.want // 2
        self._refused = max(math.floor(grant.level), 0) + 1
        self._ask_at = -math.inf
        if had < claim.want:
            self._ask_at = now + PAUSE_S

    def _end_lease(self, now: float) -> None:
        """When the lease has expired, drop tokens that the account takes back."""
        if now >= self._until:
            used = self.used
            self._granted = self._told
            self._held = self._granted - used

    # -- without the account

    def disconnect(self, now: float) -> None:
        """Use the local share of what was left, because the account is unreachable."""
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
        """The account is reachable again."""
        if self._share is None:
            return
        self._inflow = self._covered(now)
        self._share = None
        self._level_at = now
        self._ask_at = -math.inf
        if not self.has_reported_all and not self.is_called:
            self._make_call()

    def divide(self, members: int, now: float) -> None:
        """Use the share of one of `members` from now on; what was used stays used."""
        self.members = members
        if self._share is not None:
            self._share.change(self._part_of_limit(), self._unit_s, now)

    @property
    def is_parted(self) -> bool:
        return self._share is not None

    @property
    def is_cut_off(self) -> bool:
        """Whether it rejects only because the account is unreachable."""
        return self.is_strict and self._share is not None

    def close(self) -> None:
        """Give the lease back and report the use, because nobody uses the budget any more."""
        self.is_closed = True
        if not self.is_called:
            self._make_call()

    def _share_of(self, tokens: float) -> int:
        return math.floor(tokens / self.members if self.fraction is None else tokens * self.fraction)

    def _part_of_limit(self) -> int:
        return max(self._share_of(self.limit), 1)

    def _filled(self, now: float) -> float:
        """The estimated level of the account, if nobody else has taken tokens since. While it is unreachable,
        the others are assumed to use its whole refill."""
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
