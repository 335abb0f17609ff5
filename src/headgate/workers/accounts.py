"""One token limit for all workers of a gateway: the supervisor keeps the accounts, and workers lease from
them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from headgate.flow.limits import Claim, Grant, LeaseAccount, LocalBudget, Presence, Standing
from headgate.flow.limits.lease_account import FORGET_S
from headgate.quota.transport import Answer, Unreachable
from headgate.workers import messages

SWEEP_S = 60.0


class _Account:
    """An account with its limit."""

    def __init__(self, claim: Claim, epoch: str, now: float) -> None:
        self.budget = LocalBudget(claim.limit, claim.unit_s, now)
        self.account = LeaseAccount(self.budget, epoch)
        self.limit, self.unit_s = claim.limit, claim.unit_s
        self.claimed_at = now

    def claim(self, claim: Claim, now: float) -> Grant:
        self.claimed_at = now
        if (claim.limit, claim.unit_s) != (self.limit, self.unit_s):
            self.limit, self.unit_s = claim.limit, claim.unit_s
            self.budget.change(claim.limit, claim.unit_s, now)
        return self.account.claim(claim, now)


class Accounts:
    """The supervisor's side. `epoch` identifies this supervisor: accounts of another one are new, and workers
    report what was left in the old ones."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self._by_name: dict[str, _Account] = {}
        self._swept_at = 0.0

    def claim(self, claims: Sequence[tuple[str, Claim]], now: float) -> list[Grant]:
        self._sweep(now)
        return [self._account(name, claim, now).claim(claim, now) for name, claim in claims]

    def _account(self, name: str, claim: Claim, now: float) -> _Account:
        account = self._by_name.get(name)
        if account is None:
            account = self._by_name[name] = _Account(claim, self._epoch, now)
        return account

    def _sweep(self, now: float) -> None:
        """Forget accounts that are full again and have had no claims for long: their routes are gone or
        idle."""
        if now - self._swept_at < SWEEP_S:
            return
        self._swept_at = now
        for name, account in list(self._by_name.items()):
            is_full = account.budget.available(now) >= account.limit
            if is_full and now - account.claimed_at > FORGET_S:
                del self._by_name[name]

    def __len__(self) -> int:
        return len(self._by_name)


class SupervisorTransport:
    """A worker's side."""

    notice = ""

    def __init__(self, send: Callable[[messages.Report], bool], workers: int) -> None:
        self.is_heard = True
        """Whether responses are still read."""
        self.is_hushed = False
        """Whether the supervisor is being replaced."""
        self._send = send
        self._workers = workers
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[list[Grant]]] = {}

    async def exchange(
        self, claims: Sequence[tuple[str, Claim]], presence: Presence | None
    ) -> tuple[list[Answer], Standing | None]:
        number = next(self._ids)
        if self.is_hushed or not self._send(messages.Claims(number, list(claims))):
            raise Unreachable("the supervisor is being replaced, or busy")
        if not self.is_heard:
            raise Unreachable("this worker is ending, and reads no more responses")
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            return list(await future), Standing(members=self._workers) if presence is not None else None
        finally:
            del self._answers[number]

    def granted(self, answer: messages.Grants) -> None:
        future = self._answers.get(answer.id)
        if future is not None and not future.done():
            future.set_result(answer.grants)

    async def close(self) -> None:
        """Nothing to close: the channel belongs to the worker."""
