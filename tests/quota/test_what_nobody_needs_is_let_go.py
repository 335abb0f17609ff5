"""Accounts that cannot be told, or will not hear, do not keep what no route uses any more."""

import asyncio
import random

from headgate.flow.limits import LeaseAccount, LocalBudget, Standing
from headgate.quota.lease_source import LeaseSource
from headgate.quota.membership import PRESENT_S
from headgate.quota.transport import Refused, Unreachable


class Account:
    """An account that may be away, or refuse to count."""

    notice = ""

    def __init__(self) -> None:
        self.account = LeaseAccount(LocalBudget(1_000, 3600, 1000.0), "one")
        self.is_away = self.refuses = False
        self.counts = True
        self.asked = 0

    async def exchange(self, claims, presence):
        self.asked += 1
        if self.is_away:
            raise Unreachable("nobody there")
        if self.refuses:
            return [Refused("it is something else") for _ in claims], Standing(
                members=1
            ) if presence else None
        now = asyncio.get_running_loop().time()
        grants = [self.account.claim(claim, now) for _, claim in claims]
        return grants, Standing(members=1) if presence and self.counts else None

    async def close(self):
        pass


def run(in_virtual_time, story):
    """With a source that has begun."""

    async def whole(loop):
        account = Account()
        source = LeaseSource("test", account, loop, random.Random(1), 0.05)
        source.start()
        try:
            return await story(loop, account, source)
        finally:
            await source.close()

    return in_virtual_time(whole)


def test_an_account_that_never_was_is_not_asked_for_ever(in_virtual_time):
    """A wrong address that was put right is forgotten at once, as there is nothing to tell."""

    async def story(loop, account, source):
        account.is_away = True
        source.budget("kthena:ratelimit:m:input", 1_000, 3600)
        await asyncio.sleep(10)
        assert source.trouble
        source.keep([])
        await asyncio.sleep(5)
        return source.is_unused

    assert run(in_virtual_time, story)


def test_what_was_used_is_told_if_that_can_be_done_soon(in_virtual_time):
    """An account that comes back in time hears of it."""

    async def story(loop, account, source):
        account.is_away = True
        budget = source.budget("kthena:ratelimit:m:input", 1_000, 3600)
        await asyncio.sleep(1)
        assert budget.take(400, loop.time())
        source.keep([])
        await asyncio.sleep(20)
        assert not source.is_unused
        account.is_away = False
        await asyncio.sleep(5)
        return source.is_unused, int(account.account.budget.available(loop.time()))

    is_unused, left = run(in_virtual_time, story)
    assert is_unused
    assert 600 <= left <= 610


def test_a_request_that_ends_after_all_was_given_up_harms_nothing(in_virtual_time):
    """An account that stayed away is told of it once more, if it is back by then."""

    async def story(loop, account, source):
        account.is_away = True
        budget = source.budget("kthena:ratelimit:m:input", 1_000, 3600)
        await asyncio.sleep(1)
        assert budget.take(400, loop.time())
        source.keep([])
        await asyncio.sleep(100)
        assert source.is_unused
        account.is_away = False
        budget.give_back(100, loop.time())
        assert not source.is_unused
        await asyncio.sleep(5)
        return source.is_unused, int(account.account.budget.available(loop.time()))

    is_unused, left = run(in_virtual_time, story)
    assert is_unused
    assert 700 <= left <= 700 + 106 * 1_000 / 3600, "what came in meanwhile is there"


def test_an_account_that_refuses_to_count_keeps_nothing(in_virtual_time):
    """What it would not hear need not be told."""

    async def story(loop, account, source):
        account.refuses = True
        budget = source.budget("kthena:ratelimit:m:input", 1_000, 3600)
        budget.charge(10, loop.time())
        await asyncio.sleep(5)
        assert budget.is_parted
        source.keep([])
        await asyncio.sleep(5)
        return source.is_unused

    assert run(in_virtual_time, story)


def test_who_cannot_be_counted_is_not_counted_all_the_time(in_virtual_time):
    """Where accounts answer and say nothing of how many there are, they are asked that now and then."""

    async def story(loop, account, source):
        account.counts = False
        source.budget("kthena:ratelimit:m:input", 1_000, 3600)
        await asyncio.sleep(10 * PRESENT_S)
        return account.asked, source.trouble

    asked, trouble = run(in_virtual_time, story)
    assert asked <= 20
    assert not trouble
