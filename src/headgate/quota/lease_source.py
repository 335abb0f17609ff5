"""Exchanges claims and grants with remote accounts, for the budgets that lease from them.

One exchange is in flight at a time, with the claims of all budgets that need one. No request waits longer
than `wait_s`: after that the accounts count as unreachable, and budgets use their local shares until
responses arrive in time again. If not the response was late, but the claim had to wait for an earlier
exchange, only this budget uses its share, until its next grant.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

from headgate.flow.limits import Claim, LeasedBudget
from headgate.quota.budgets import LOOK_S, Budgets
from headgate.quota.membership import Membership
from headgate.quota.patience import Patience
from headgate.quota.reachability import Reachability
from headgate.quota.transport import Answer, Denied, Refused, Transport, Unreachable
from headgate.quota.waiter import Waiter, Waiters
from headgate.telemetry.line_log import FewLines

log = logging.getLogger(__name__)

EXCHANGE_S = 2.0
"""Timeout of an exchange."""
GAP_S = 0.002
"""Pause between two exchanges, which collects claims."""
TROUBLED_GAP_S = 0.1
"""The same while responses are late."""
FIRST_DELAY_S = 0.05
LONGEST_DELAY_S = 2.0
"""Longest delay before a retry after failures."""
LONGEST_UNUSED_DELAY_S = 30.0
"""The same if there was never a response and no request has used a budget: the address may be wrong."""
GIVE_UP_S = 60.0
"""After so long without a response, the use of budgets that no route needs any more is dropped unreported."""
CANCEL_AGAIN_S = 0.05
LAST_WORDS_S = 0.25
"""Timeout for giving all leases back at the end."""


class Exchanges:
    """The exchanges of a source: counters, and the one in flight."""

    def __init__(self) -> None:
        self.count = 0
        """Exchanges that have ended, which is also the number of the one in flight."""
        self.claims = 0
        self.failures = 0
        self.late = 0
        self.began_at: float | None = None
        """When the exchange in flight began."""

    def begin(self, now: float) -> None:
        self.began_at = now

    def end(self) -> None:
        self.began_at = None
        self.count += 1

    def statistics(self) -> dict[str, int]:
        return {
            "exchanges": self.count,
            "claims": self.claims,
            "failures": self.failures,
            "late": self.late,
        }


class LeaseSource:
    """The budgets that share accounts with other processes.

    `start` begins to exchange claims; `close` gives back what was leased.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        wait_s: float,
        is_strict: bool = False,
        members: int = 1,
    ) -> None:
        """`members`: the expected number until it is known. `name` is for display."""
        self.name = name
        self.exchanges = Exchanges()
        self._transport = transport
        self._loop = loop
        self._rng = rng
        self._log = FewLines(log, loop.time)
        self._patience = Patience(loop, wait_s)
        self._reachability = Reachability()
        self._membership = Membership(members, loop.time())
        self._budgets = Budgets(f"{rng.getrandbits(64):016x}", is_strict)
        self._waiters = Waiters(loop)
        self._task: asyncio.Task[None] | None = None

    # -- state

    @property
    def trouble(self) -> str:
        """Why budgets use their local shares; empty if they do not."""
        return self._reachability.trouble

    @property
    def notice(self) -> str:
        """A problem that does not stop the counting; empty if there is none."""
        return self._transport.notice

    @property
    def is_denied(self) -> bool:
        """Whether a permission is missing."""
        told = (self.trouble, self.notice, *(why for _, why in self._budgets.rejected))
        return any(isinstance(why, Denied) for why in told)

    def refusal(self, accounts: Collection[str]) -> str:
        """Why one of these accounts is not counted although others may be; empty if they are."""
        refused = (why for budget, why in self._budgets.rejected if budget.account in accounts)
        return next(refused, "")

    # -- budgets

    def budget(self, account: str, limit: int, unit_s: int) -> LeasedBudget:
        """A new member's budget of this account."""
        now = self._loop.time()
        budget = self._budgets.make(account, limit, unit_s, self._membership.members, now)
        if self.trouble:
            self._membership.disconnect(budget, now)
        return budget

    def __contains__(self, budget: object) -> bool:
        return budget in self._budgets

    def keep(self, used: Iterable[object]) -> None:
        """Close all other budgets; their use is reported once their requests end."""
        for budget in self._budgets.other_than(used):
            budget.close()
            if self.trouble and not self._reachability.has_responded and budget.has_reported_all:
                self._drop(budget)

    def expect(self, members: int) -> None:
        """Assume `members` until the account reports the number."""
        now = self._loop.time()
        if self._membership.expect(members):
            for budget in self._budgets:
                budget.divide(members, now)

    @property
    def is_unused(self) -> bool:
        """Whether nothing is left to lease or to report."""
        return not self._budgets

    def change(self, wait_s: float, is_strict: bool) -> None:
        self._patience.wait_s = wait_s
        self._budgets.change(is_strict)

    # -- requests

    def ask(
        self,
        budget: LeasedBudget,
        tokens: int,
        then: Callable[[], None],
        least: int | None = None,
        waiter: Waiter | None = None,
    ) -> Waiter | None:
        """Claim tokens that `budget` lacks; `least` would be enough. None if waiting is useless; else `then`
        is called when the tokens may be available, or will not be in time. `waiter`: one that already waits
        for another budget of the same request."""
        if not budget.ask(tokens, self._loop.time(), least):
            return None
        if waiter is None:
            waiter = self._waiters.add(budget, then)
            waiter.watch(self._patience.watch(self._waits_too_long, budget, waiter))
        waiter.budgets.append(budget)
        return waiter

    def _exchange_is_late(self, number: int) -> None:
        """The exchange of this number takes too long."""
        if self.exchanges.count == number:
            self.exchanges.late += 1
            self._mark_unreachable(f"no answer within {self._patience.wait_s * 1e3:g} ms")

    def _waits_too_long(self, budget: LeasedBudget, waiter: Waiter) -> None:
        if waiter.is_over:
            return
        began_at = self.exchanges.began_at
        if began_at is not None and self._patience.is_late(began_at):
            self._exchange_is_late(self.exchanges.count)
            return
        # The claim arrived during an exchange, and the next one, which contains it, is not late yet.
        for each in waiter.budgets:
            self._membership.disconnect(each, self._loop.time())
        self._waiters.end(waiter)
        self._waiters.end_unclaimed(budget)

    # -- account

    def start(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._wait_until_called()
            try:
                await self._exchange()
            except Unreachable as error:
                self._failed(error.why)
            except Exception as error:
                log.exception("%s could not be asked", self.name)
                self._failed(Refused.with_public(repr(error), "it cannot be asked: see the gateway's log"))
            else:
                failures = 0
                await asyncio.sleep(TROUBLED_GAP_S if self.trouble else GAP_S)
                continue
            delay_s = min(FIRST_DELAY_S * 2**failures, self._longest_delay_s)
            failures = min(failures + 1, 16)
            await asyncio.sleep(delay_s * self._rng.uniform(0.5, 1.0))

    @property
    def _longest_delay_s(self) -> float:
        is_all_reported = all(budget.has_reported_all for budget in self._budgets)
        is_needed = self._reachability.has_responded or not is_all_reported
        return LONGEST_DELAY_S if is_needed else LONGEST_UNUSED_DELAY_S

    def _failed(self, why: str) -> None:
        self.exchanges.failures += 1
        self._mark_unreachable(why)
        is_given_up = self._reachability.is_lost_for(GIVE_UP_S, self._loop.time())
        for budget in [each for each in self._budgets if each.is_closed]:
            if budget.has_reported_all or is_given_up:
                self._drop(budget)

    def _drop(self, budget: LeasedBudget) -> None:
        self._budgets.drop(budget)
        self._waiters.end_unclaimed(budget)

    async def _wait_until_called(self) -> None:
        """Wait until there is something to report. During trouble that is at once, to find out whether the
        account responds."""
        wake = self._budgets.wake
        self._collect_due()
        while not (self._budgets and self._is_exchange_due()):
            wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await wake.wait()
            self._collect_due()

    def _is_exchange_due(self) -> bool:
        is_reported = not self._membership.is_due(self._loop.time())
        return self._budgets.has_called or bool(self.trouble) or not is_reported

    def _collect_due(self) -> None:
        if self._budgets.collect_due(self._loop.time()):
            self._log.settle()

    async def _exchange(self) -> None:
        """Send the claims of all budgets that called. Raises Unreachable."""
        asked_at = self._loop.time()
        budgets = self._budgets.next_called()
        if self.trouble and not budgets:
            # Some claim has to test whether the account responds.
            budgets = list(itertools.islice(self._budgets, 1))
        for budget in budgets:
            self._waiters.mark_claimed(budget)
        claims = [budget.claim(asked_at) for budget in budgets]
        is_reporting = self._membership.is_due(asked_at) or not claims
        presence = self._membership.presence(self._budgets, asked_at) if is_reporting else None
        self.exchanges.begin(asked_at)
        late = self._patience.watch(self._exchange_is_late, self.exchanges.count)
        try:
            async with asyncio.timeout(EXCHANGE_S):
                told = [(budget.account, claim) for budget, claim in zip(budgets, claims, strict=True)]
                answers, standing = await self._transport.exchange(told, presence)
        except TimeoutError:
            raise Unreachable(f"no answer within {EXCHANGE_S:g} s") from None
        finally:
            self.exchanges.end()
            late.cancel()
        now = self._loop.time()
        self.exchanges.claims += len(claims)
        if presence is not None:
            self._membership.reported(now)
        if standing is not None:
            self._membership.told(standing, asked_at, now)
        for budget, claim, answer in zip(budgets, claims, answers, strict=True):
            self._apply(budget, claim, answer, now)
        if self._reachability.respond(now - asked_at, self._patience):
            self._mark_reachable(now)
        self._waiters.end_claimed()

    def _apply(self, budget: LeasedBudget, claim: Claim, answer: Answer, now: float) -> None:
        if isinstance(answer, Refused):
            if not self._budgets.is_rejected(budget):
                self._log.error("%s does not count %s: %s", self.name, budget.account, answer)
            self._budgets.reject(budget, answer)
            self._membership.disconnect(budget, now)
            if budget.is_closed:
                self._drop(budget)
            return
        budget.granted(claim, answer, now, self._membership.members)
        self._budgets.accept(budget)
        if not self.trouble:
            budget.reconnect(now)
            if budget in self._waiters and budget.has_enough_for_all(claim, now):
                self._waiters.end_unclaimed(budget)
        if budget.is_over:
            self._drop(budget)

    def _mark_unreachable(self, why: str) -> None:
        now = self._loop.time()
        trouble = self.trouble
        self._reachability.lose(why, now)
        if not trouble:
            does = "nothing goes" if self._budgets.is_strict else "each gateway goes by its own share"
            self._log.warning("%s cannot be reached (%s): %s until it can", self.name, why, does)
            for budget in self._budgets:
                self._membership.disconnect(budget, now)
        elif isinstance(why, Denied) and why != trouble:
            self._log.warning("%s does not count: %s", self.name, why)
        self._waiters.end_all()

    def _mark_reachable(self, now: float) -> None:
        if not self.trouble:
            return
        self._log.info("%s answers again, after %.1f s", self.name, self._reachability.regain())
        for budget in self._budgets:
            if not self._budgets.is_rejected(budget):
                budget.reconnect(now)

    async def close(self) -> None:
        """Give all leases back, if that is quick."""
        if self._task is None:
            await self._transport.close()
            return
        # A client library may swallow a cancellation that coincides with a response.
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CANCEL_AGAIN_S)
        self._task = None
        now = self._loop.time()
        claims = []
        for budget in self._budgets:
            budget.close()
            if not budget.is_settled:
                claims.append((budget.account, budget.claim(now)))
        leaving = self._membership.presence(self._budgets, now, is_leaving=True)
        if not self.trouble and (claims or self._membership.is_known):
            try:
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._transport.exchange(claims, leaving)
            except (TimeoutError, Unreachable) as error:
                log.info("%s was not told of the last leases: they end by themselves: %s", self.name, error)
        await self._transport.close()

    def statistics(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "trouble": str(self.trouble),
            "notice": str(self.notice),
            "refused": {budget.account: str(why) for budget, why in self._budgets.rejected},
            "trouble_since": round(self._reachability.lost_at_unix, 3) if self.trouble else None,
            "members": self._membership.members,
            "share": self._membership.fraction,
            "budgets": len(self._budgets),
            **self.exchanges.statistics(),
            "waits": self._waiters.count,
            "longest_wait_s": round(self._waiters.longest_wait_s, 6),
        }
