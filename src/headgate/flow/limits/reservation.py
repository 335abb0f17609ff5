"""The tokens that are held for one request, from its arrival to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.flow.limits.account import Account

if TYPE_CHECKING:
    from headgate.flow.limits.route_limit import RouteLimit


class Reservation:
    """Settled exactly once. A direction that is not limited has no account, and counts nowhere.

    It stays with the accounts that it was made with. Where a limit is taken away in the meantime, nobody asks
    those any more.
    """

    __slots__ = ("input", "input_tokens", "is_settled", "limit", "output", "output_tokens")

    def __init__(
        self,
        limit: RouteLimit,
        input: Account | None,
        input_tokens: int,
        output: Account | None,
        output_tokens: int,
    ) -> None:
        self.limit = limit
        self.input = input
        self.input_tokens = input_tokens
        """Reserved until it is settled, then used; so of the output."""
        self.output = output
        self.output_tokens = output_tokens
        self.is_settled = False

    def settle(self, input_tokens: int, output_tokens: int, now: float) -> None:
        """Counts what was used: less than what was reserved is given back, more goes into debt."""
        assert not self.is_settled, "a reservation is settled once"
        self.is_settled = True
        account = self.input
        if account is not None:
            spare = self.input_tokens - input_tokens
            account.reserved -= self.input_tokens
            account.used += input_tokens
            if spare > 0:
                account.budget.give_back(spare, now)
            elif spare < 0:
                account.budget.charge(-spare, now)
        account = self.output
        if account is not None:
            spare = self.output_tokens - output_tokens
            account.reserved -= self.output_tokens
            account.used += output_tokens
            if spare > 0:
                account.budget.give_back(spare, now)
            elif spare < 0:
                account.budget.charge(-spare, now)
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
