"""The tokens that are held for one request, from its arrival to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headgate.flow.limits.account import Account

if TYPE_CHECKING:
    from headgate.flow.limits.route_limit import RouteLimit


class Reservation(msgspec.Struct, gc=False):
    """Settled exactly once. A direction that is not limited has no account, and counts nowhere.

    It stays with the accounts that it was made with. Where a limit is taken away in the meantime, nobody asks
    those any more.
    """

    limit: RouteLimit
    input: Account | None
    input_tokens: int
    """Reserved until it is settled, then used; so of the output."""
    output: Account | None
    output_tokens: int
    is_settled: bool = False

    def settle(self, input_tokens: int, output_tokens: int, now: float) -> None:
        """Counts what was used, which may be more."""
        assert not self.is_settled, "a reservation is settled once"
        self.is_settled = True
        if self.input is not None:
            self.input.settle(self.input_tokens, input_tokens, now)
        if self.output is not None:
            self.output.settle(self.output_tokens, output_tokens, now)
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
