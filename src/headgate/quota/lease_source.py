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
import math
import random
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

from headgate.flow.limits import Claim, LeasedBudget
from headgate.quota.membership import Membership
from headgate.quota.transport import Answer, Denied, Refused, Transport, Unreachable
from headgate.quota.waiter import Waiter, Waiters
from headgate.telemetry.line_log import FewLines

log = logging.getLogger(__name__)

MAX_CLAIMS = 128
"""Claims per exchange; other budgets wait for the next."""
EXCHANGE_S = 2.0
"""Timeout of an exchange."""
LOOK_S = 0.5
"""Interval for checking budgets that have not called."""
PRESENT_S = 3.0
"""Interval for reporting this process and learning the number of members."""
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
LATE_FRACTION, VERY_LATE_FRACTION = 0.8, 0.1
"""Fractions of `wait_s`: after the first, the loop gets the second to read what may have arrived already."""
SOON_FRACTION = 0.5
"""Fraction of `wait_s`: unreachable accounts are used again after one response within it,"""
IN_TIME_AGAIN = 4
"""or after this many consecutive ones in time."""
TIME_TO_ASK_AGAIN = 1.0 - LATE_FRACTION - VERY_LATE_FRACTION
"""Fraction of `wait_s`: a second wait within it keeps the total within `wait_s`."""


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
        self.wait_s = wait_s
        self.trouble = ""
        """Why budgets use their local shares; empty if they do not."""
        self.trouble_since = 0.0
        """Seconds since 1970."""
        self.exchanges = 0
        self.claims = 0
        self.failures = 0
        self.late = 0
        self._transport = transport
        self._loop = loop
        self._rng = rng
        self._log = FewLines(log, loop.time)
        self._is_strict = is_strict
        self._membership = Membership(members, loop.time())
        self._budgets: dict[LeasedBudget, None] = {}
        self._called: dict[LeasedBudget, None] = {}
        self._waiters = Waiters(loop)
        self._rejected: dict[LeasedBudget, str] = {}
        self._wake = asyncio.Event()
        self._counted_at = self._collected_at = -math.inf
        self._unreachable_since = math.inf
        self._exchange_began_at: float | None = None
        """When the exchange in flight began."""
        self._has_responded = False
        self._in_time = 0
        """Recent consecutive responses in time."""
        self._task: asyncio.Task[None] | None = None
        self._id = f"{rng.getrandbits(64):016x}"
        self._numbers = itertools.count(1)

    # -- state

    @property
    def notice(self) -> str:
        """A problem that does not stop the counting; empty if there is none."""
        return self._transport.notice

    @property
    def is_denied(self) -> bool:
        """Whether a permission is missing."""
        told = (self.trouble, self.notice, *self._rejected.values())
        return any(isinstance(why, Denied) for why in told)

    def refusal(self, accounts: Collection[str]) -> str:
        """Why one of these accounts is not counted although others may be; empty if they are."""
        refused = (why for budget, why in self._rejected.items() if budget.account in accounts)
        return next(refused, "")

    # -- budgets

    def budget(self, account: str, limit: int, unit_s: int) -> LeasedBudget:
        """A new member's budget of this account."""
        member = f"{self._id}.{next(self._numbers)}"
        now = self._loop.time()
        budget = LeasedBudget(account, member, limit, unit_s, now, self._call, self._membership.members)
        budget.is_strict = self._is_strict
        self._budgets[budget] = None
        if self.trouble:
            self._membership.disconnect(budget, now)
        self._wake.set()
        return budget

    def __contains__(self, budget: object) -> bool:
        return budget in self._budgets

    def keep(self, used: Iterable[object]) -> None:
        """Close all other budgets; their use is reported once their requests end."""
        for budget in self._budgets.keys() - set(used):
            budget.close()
            if self.trouble and not self._has_responded and budget.has_reported_all:
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
        self.wait_s, self._is_strict = wait_s, is_strict
        for budget in self._budgets:
            budget.is_strict = is_strict

    def _call(self, budget: LeasedBudget) -> None:
        self._budgets[budget] = None
        self._called[budget] = None
        self._wake.set()

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
            waiter.watch(self._watch(self._waits_too_long, budget, waiter))
        waiter.budgets.append(budget)
        return waiter

    def _watch(self, then: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        """Call `then` when it is too late, unless cancelled."""
        return self._loop.call_later(self.wait_s * LATE_FRACTION, self._late, then, arguments)

    def _late(self, then: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """Call `then` a little later: if the loop was busy, the response may have arrived and is read in a
        moment."""
        self._loop.call_later(self.wait_s * VERY_LATE_FRACTION, then, *arguments)

    def _exchange_is_late(self, number: int) -> None:
        """The exchange of this number takes too long."""
        if self.exchanges == number:
            self.late += 1
            self._mark_unreachable(f"no answer within {self.wait_s * 1e3:g} ms")

    def _waits_too_long(self, budget: LeasedBudget, waiter: Waiter) -> None:
        if waiter.is_over:
            return
        if (
            self._exchange_began_at is not None
            and self._loop.time() - self._exchange_began_at >= self.wait_s * LATE_FRACTION
        ):
            self._exchange_is_late(self.exchanges)
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
        is_needed = self._has_responded or any(not budget.has_reported_all for budget in self._budgets)
        return LONGEST_DELAY_S if is_needed else LONGEST_UNUSED_DELAY_S

    def _failed(self, why: str) -> None:
        self.failures += 1
        self._mark_unreachable(why)
        is_given_up = self._loop.time() - self._unreachable_since >= GIVE_UP_S
        for budget in [each for each in self._budgets if each.is_closed]:
            if budget.has_reported_all or is_given_up:
                self._drop(budget)

    def _drop(self, budget: LeasedBudget) -> None:
        """Remove a budget. If one of its requests ends later, the use is reported once more."""
        budget.is_called = False
        for known in (self._budgets, self._called, self._rejected):
            known.pop(budget, None)
        self._waiters.end_unclaimed(budget)

    async def _wait_until_called(self) -> None:
        """Wait until there is something to report. During trouble that is at once, to find out whether the
        account responds."""
        self._collect_due()
        while not (self._budgets and (self._called or self.trouble or self._is_count_due())):
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()
            self._collect_due()

    def _collect_due(self) -> None:
        """Include budgets that have something to report and did not call."""
        now = self._loop.time()
        if now - self._collected_at >= LOOK_S:
            self._collected_at = now
            self._log.settle()
            self._called.update((budget, None) for budget in self._budgets if budget.is_due(now))

    def _is_count_due(self) -> bool:
        return self._loop.time() - self._counted_at >= PRESENT_S

    async def _exchange(self) -> None:
        """Send the claims of all budgets that called. Raises Unreachable."""
        asked_at = self._loop.time()
        # During trouble, some claim has to test whether the account responds.
        called = self._called or (self._budgets if self.trouble else ())
        budgets = list(itertools.islice(called, MAX_CLAIMS if self._called else 1))
        for budget in budgets:
            self._called.pop(budget, None)
            self._waiters.mark_claimed(budget)
        claims = [budget.claim(asked_at) for budget in budgets]
        presence = (
            self._membership.presence(self._budgets, asked_at) if self._is_count_due() or not claims else None
        )
        self._exchange_began_at = asked_at
        late = self._watch(self._exchange_is_late, self.exchanges)
        try:
            async with asyncio.timeout(EXCHANGE_S):
                told = [(budget.account, claim) for budget, claim in zip(budgets, claims, strict=True)]
                answers, standing = await self._transport.exchange(told, presence)
        except TimeoutError:
            raise Unreachable(f"no answer within {EXCHANGE_S:g} s") from None
        finally:
            self._exchange_began_at = None
            self.exchanges += 1
            late.cancel()
        now = self._loop.time()
        self._has_responded = True
        self.claims += len(claims)
        if presence is not None:
            self._counted_at = now
        if standing is not None:
            self._membership.told(standing, asked_at, now)
        for budget, claim, answer in zip(budgets, claims, answers, strict=True):
            self._apply(budget, claim, answer, now)
        self._record_duration(now - asked_at, now)
        self._waiters.end_claimed()

    def _record_duration(self, took_s: float, now: float) -> None:
        """Use the accounts again once responses arrive in time."""
        self._in_time = (
            self._in_time + 1 if took_s <= self.wait_s * (LATE_FRACTION + VERY_LATE_FRACTION) else 0
        )
        if took_s <= self.wait_s * SOON_FRACTION or self._in_time >= IN_TIME_AGAIN:
            self._mark_reachable(now)

    def _apply(self, budget: LeasedBudget, claim: Claim, answer: Answer, now: float) -> None:
        if isinstance(answer, Refused):
            if budget not in self._rejected:
                self._log.error("%s does not count %s: %s", self.name, budget.account, answer)
            self._rejected[budget] = answer
            self._membership.disconnect(budget, now)
            if budget.is_closed:
                self._drop(budget)
            return
        budget.granted(claim, answer, now, self._membership.members)
        self._rejected.pop(budget, None)
        if not self.trouble:
            budget.reconnect(now)
            if budget in self._waiters and budget.has_enough_for_all(claim, now):
                self._waiters.end_unclaimed(budget)
        if budget.is_over:
            self._drop(budget)

    def _mark_unreachable(self, why: str) -> None:
        now = self._loop.time()
        if not self.trouble:
            self.trouble_since, self._unreachable_since = time.time(), now
            does = "nothing goes" if self._is_strict else "each gateway goes by its own share"
            self._log.warning("%s cannot be reached (%s): %s until it can", self.name, why, does)
            for budget in self._budgets:
                self._membership.disconnect(budget, now)
        elif isinstance(why, Denied) and why != self.trouble:
            self._log.warning("%s does not count: %s", self.name, why)
        self.trouble = why
        self._in_time = 0
        self._waiters.end_all()

    def _mark_reachable(self, now: float) -> None:
        if not self.trouble:
            return
        self._log.info("%s answers again, after %.1f s", self.name, time.time() - self.trouble_since)
        self.trouble = ""
        for budget in self._budgets:
            if budget not in self._rejected:
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
            "refused": {budget.account: str(why) for budget, why in self._rejected.items()},
            "trouble_since": round(self.trouble_since, 3) if self.trouble else None,
            "members": self._membership.members,
            "share": self._membership.fraction,
            "budgets": len(self._budgets),
            "exchanges": self.exchanges,
            "claims": self.claims,
            "failures": self.failures,
            "late": self.late,
            "waits": self._waiters.count,
            "longest_wait_s": round(self._waiters.longest_wait_s, 6),
        }
