"""The token limit of one route: requests for its model and its adapters count together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate import routing
from headgate.flow.limits.account import Account, Direction
from headgate.flow.limits.budget import Budget, LocalBudget
from headgate.flow.limits.shortage import Shortage

TENANT: Final = "Tenant"
"""The kind in the keys of limits that belong to tenants, not to routes of the snapshot."""
PROVIDER: Final = routing.PROVIDER
"""The same for external providers."""

MakeBudget = Callable[[routing.Route, Direction, int, float], Budget]
"""Creates the budget of one direction of a route, from the tokens of its limit and the time."""


def local_budget(route: routing.Route, direction: Direction, limit: int, now: float) -> Budget:
    """A budget that this process keeps for itself."""
    assert route.limits is not None
    return LocalBudget(limit, route.limits.unit_s, now)


class Reservation(msgspec.Struct, gc=False):
    """Settled exactly once. A direction without a limit has no account.

    It keeps the accounts that it was created with, even if the limit is removed and nothing reads them any
    more.
    """

    limit: RouteLimit
    input: Account | None
    input_tokens: int
    """Reserved until it is settled, then used; likewise for the output."""
    output: Account | None
    output_tokens: int
    is_settled: bool = False
    also: tuple[Reservation, ...] = ()
    """Of the same tokens, in further limits that the request must fit; settled together."""
    booked: tuple[int, int] | None = None
    """Input and output tokens of the same request that were settled before: for what follows in a session."""

    def settle(self, input_tokens: int, output_tokens: int, now: float) -> None:
        """Count what was used, which may be more than was reserved."""
        assert not self.is_settled, "a reservation is settled once"
        self.is_settled = True
        if self.input is not None:
            self.input.settle(self.input_tokens, input_tokens, now)
        if self.output is not None:
            self.output.settle(self.output_tokens, output_tokens, now)
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        for other in self.also:
            other.settle(input_tokens, output_tokens, now)

    def give_back(self, now: float) -> None:
        """Nothing of it is used: the request does not go now."""
        self.is_settled = True
        if self.input is not None:
            self.input.settle(self.input_tokens, 0, now)
        if self.output is not None:
            self.output.settle(self.output_tokens, 0, now)


class RouteLimit:
    """Reserves tokens for the requests of a route that has `limits`.

    For the input, the whole estimated prompt is reserved. For the output, one token must be left; then the
    expected response is reserved, into debt if need be. Otherwise every request of a burst would find the
    last tokens, because none is counted before it ends.
    """

    __slots__ = ("_key", "_make", "input", "name", "output", "uid", "written")

    def __init__(self, route: routing.Route, make: MakeBudget, now: float) -> None:
        assert route.limits is not None
        self.name = route.name
        self._key = route.key
        self.uid = route.uid
        self.written = route.limits
        self._make = make
        self.input = self._account(route, "input", route.limits.input, now)
        self.output = self._account(route, "output", route.limits.output, now)

    @property
    def field(self) -> str:
        """Where the limit is set, for messages."""
        if self._key.kind == PROVIDER:
            return "limits of the provider"
        is_of_tenant = self._key.kind == TENANT
        return "spec.limits of the Tenant" if is_of_tenant else "spec.rateLimit of the route"

    def _account(
        self, route: routing.Route, direction: Direction, limit: int | None, now: float
    ) -> Account | None:
        return None if limit is None else Account(direction, self._make(route, direction, limit, now))

    def change(self, route: routing.Route, now: float) -> None:
        """Apply the route's present limits.

        A direction that no longer has a limit is dropped, a new one starts full, and a changed one keeps what
        was used. If the limit moves to or from a Redis, the count there applies, and requests in flight are
        settled in the old one.
        """
        before, limits = self.written, route.limits
        assert limits is not None
        if limits == before:
            return
        self.written = limits
        is_elsewhere = limits.redis_address != before.redis_address
        self.input = self._changed(self.input, route, "input", limits.input, is_elsewhere, now)
        self.output = self._changed(self.output, route, "output", limits.output, is_elsewhere, now)

    def _changed(
        self,
        account: Account | None,
        route: routing.Route,
        direction: Direction,
        limit: int | None,
        is_elsewhere: bool,
        now: float,
    ) -> Account | None:
        if limit is None or account is None:
            return self._account(route, direction, limit, now)
        if is_elsewhere:
            before, account = account, Account(direction, self._make(route, direction, limit, now))
            account.used, account.refused = before.used, before.refused
        else:
            account.budget.change(limit, self.written.unit_s, now)
        return account

    def accounts(self) -> list[Account]:
        return [account for account in (self.input, self.output) if account is not None]

    @property
    def is_of_tenant(self) -> bool:
        """Whether it counts the tokens of a tenant, whichever models these are for."""
        return self._key.kind == TENANT

    @property
    def is_parted(self) -> bool:
        """Whether a shared budget cannot reach its account now."""
        return any(account.budget.is_parted for account in self.accounts())

    @property
    def is_cut_off(self) -> bool:
        """Whether it rejects only because of that."""
        return any(account.budget.is_cut_off for account in self.accounts())

    def reserve(self, input_tokens: int, output_tokens: int, now: float) -> Reservation | None:
        """None if the request must wait or be rejected; then nothing is taken, and `shortage` says why."""
        input, output = self.input, self.output
        if input is not None and not input.budget.take(input_tokens, now):
            return None
        if output is not None:
            if not output.budget.overdraw(output_tokens, now):
                if input is not None:
                    input.budget.give_back(input_tokens, now)
                return None
            output.reserved += output_tokens
        if input is not None:
            input.reserved += input_tokens
        return Reservation(self, input, input_tokens, output, output_tokens)

    def shortage(self, input_tokens: int, now: float) -> Shortage:
        """The direction that a request waits for the longest; its `wait_s` is 0 if it could go. Takes
        nothing."""
        found = [
            self._short(account, needed, now)
            for account, needed in ((self.input, input_tokens), (self.output, 1))
            if account is not None
        ]
        return max(found, key=lambda each: each.wait_s)

    def refused(self, shortage: Shortage) -> None:
        """Count a request rejected for this shortage."""
        account = self.input if shortage.direction == "input" else self.output
        if account is not None:
            account.refused += 1

    def _short(self, account: Account, needed: int, now: float) -> Shortage:
        budget = account.budget
        return Shortage(
            direction=account.direction,
            limit=budget.limit,
            unit=self.written.unit,
            available=budget.available(now),
            needed=needed,
            wait_s=budget.wait_s(needed, now),
        )

    def validate(self) -> None:
        """Raise AssertionError if a negative amount is reserved."""
        for account in self.accounts():
            assert account.reserved >= 0, f"{self.name}: {account.direction} reserved {account.reserved}"
