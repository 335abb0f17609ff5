"""However long the account takes to answer, a request waits for it no longer than it may."""

import asyncio
import functools
import random

import pytest

from headgate.flow.limits import LeaseAccount, LocalBudget, Standing
from headgate.quota.lease_source import LeaseSource
from headgate.quota.transport import Unreachable

WAIT_S = 0.05


class Account:
    """Answers after `delay_s`, or not at all."""

    notice = ""

    def __init__(self, limit: int) -> None:
        self.account = LeaseAccount(LocalBudget(limit, 3600, 1000.0), "one")
        self.delay_s = 0.0
        self.is_away = False
        self.asked = 0

    async def exchange(self, claims, presence):
        self.asked += 1
        now = asyncio.get_running_loop().time()
        if self.is_away:
            raise Unreachable("nobody there")
        grants = [self.account.claim(claim, now) for _, claim in claims]
        await asyncio.sleep(self.delay_s)
        return grants, Standing(members=1) if presence else None

    async def close(self):
        pass


class Requests:
    """Takes tokens of a budget, and notes how long each took."""

    def __init__(self, loop, limit: int) -> None:
        self.account = Account(limit)
        self.source = LeaseSource("test", self.account, loop, random.Random(1), WAIT_S)
        self.source.start()
        self.budget = self.source.budget("kthena:ratelimit:m:input", limit, 3600)
        self.waits: list[float] = []
        self._loop = loop

    async def take(self, tokens: int) -> bool:
        began = self._loop.time()
        if not self.budget.take(tokens, began):
            ended = asyncio.Event()
            if self.source.ask(self.budget, tokens, ended.set) is not None:
                await ended.wait()
            took = self.budget.take(tokens, self._loop.time())
        else:
            took = True
        self.waits.append(self._loop.time() - began)
        return took


def test_no_request_waits_longer_than_it_may(in_virtual_time):
    """Not even when the account grows slow as many requests come at all times."""

    async def story(loop):
        requests = Requests(loop, 1_000_000)
        served = 0
        for delay_s in (0.0, 0.03, 0.2, 1.0, 5.0, 0.0):
            requests.account.delay_s = delay_s
            for _ in range(50):
                served += sum(await asyncio.gather(*(requests.take(10) for _ in range(3))))
                await asyncio.sleep(0.007)
        await requests.source.close()
        return served, requests.waits

    served, waits = in_virtual_time(story)
    assert served == 6 * 50 * 3
    assert max(waits) <= WAIT_S
    assert sum(wait > 0 for wait in waits) < len(waits) / 20


@pytest.mark.parametrize("delay_s", [0.026, 0.035, 0.044])
def test_answers_that_come_in_time_are_used_again(in_virtual_time, delay_s):
    """After one late answer, an account that takes more than half of the wait is gone on with."""

    async def story(loop):
        requests = Requests(loop, 100_000_000)
        await requests.take(10)
        requests.account.delay_s = 0.2
        while not requests.source.trouble:
            await requests.take(10)
            await asyncio.sleep(0.01)
        requests.account.delay_s = delay_s
        while requests.source.trouble:
            await asyncio.sleep(0.01)
        late, waits = requests.source.exchanges.late, requests.source.statistics()["waits"]
        for size in (10, 100, 1000, 10_000, 50_000) * 20:
            assert all(await asyncio.gather(*(requests.take(size) for _ in range(3))))
            await asyncio.sleep(0.013)
        assert requests.source.statistics()["waits"] > waits
        assert requests.source.exchanges.late == late
        assert not requests.source.trouble
        await requests.source.close()
        return requests.waits

    assert max(in_virtual_time(story)) <= WAIT_S


def test_what_waits_behind_another_goes_by_its_share(in_virtual_time):
    """A claim that has to wait for an answer to come first is no sign that answers come late."""

    async def story(loop):
        requests = Requests(loop, 1_000_000)
        requests.account.delay_s = 0.04
        first = asyncio.create_task(requests.take(10))
        await asyncio.sleep(0.02)
        assert await requests.take(500_000)
        assert requests.budget.is_parted
        assert await first
        assert not requests.source.trouble
        await asyncio.sleep(0.2)
        assert not requests.budget.is_parted
        level = requests.account.account.budget.available(loop.time())
        await requests.source.close()
        return requests.waits, level

    waits, level = in_virtual_time(story)
    assert max(waits) <= WAIT_S
    assert level <= 500_000, "what went by the share is told"


def test_one_answer_serves_who_came_meanwhile(in_virtual_time):
    """A lease that suffices for them too is not asked for twice."""

    async def story(loop):
        requests = Requests(loop, 1_000_000)
        await asyncio.sleep(0.1)
        requests.account.delay_s = 0.04
        first = asyncio.create_task(requests.take(10))
        await asyncio.sleep(0.02)
        assert await requests.take(10)
        assert not requests.budget.is_parted
        await first
        await requests.source.close()
        return requests.waits

    assert max(in_virtual_time(story)) == pytest.approx(0.04)


def test_the_slow_are_asked_at_leisure(in_virtual_time):
    """An account that answers late, or not, is not pressed by requests that come meanwhile."""

    async def story(loop):
        requests = Requests(loop, 1_000_000)
        await requests.take(10)
        requests.account.is_away = True
        before = requests.account.asked
        for _ in range(2_000):
            assert await requests.take(10)
            await asyncio.sleep(0.01)
        asked = requests.account.asked - before
        requests.account.is_away = False
        at = loop.time()
        while requests.source.trouble:
            await asyncio.sleep(0.01)
        await requests.source.close()
        return asked, loop.time() - at

    asked, found_after_s = in_virtual_time(story)
    assert asked <= 25
    assert found_after_s <= 2.1


def test_a_client_that_leaves_is_not_waited_for(in_virtual_time):
    """Nothing is done for a request that is gone; the others get what they asked for."""

    async def story(loop):
        requests = Requests(loop, 1_000)
        requests.account.delay_s = 0.01
        called: list[int] = []
        waiters = [
            requests.source.ask(requests.budget, 10, functools.partial(called.append, each))
            for each in range(3)
        ]
        waiters[1].cancel()
        await asyncio.sleep(0.5)
        await requests.source.close()
        return called

    assert in_virtual_time(story) == [0, 2]


def test_a_budget_that_is_not_used_any_more_is_let_go(in_virtual_time):
    """A route without its limit leaves nothing behind, once its last request has ended."""

    async def story(loop):
        requests = Requests(loop, 1_000)
        assert await requests.take(500)
        requests.source.keep([])
        await asyncio.sleep(0.5)
        assert requests.source.is_unused
        requests.budget.give_back(300, loop.time())
        assert not requests.source.is_unused
        await asyncio.sleep(0.5)
        assert requests.source.is_unused
        level = requests.account.account.budget.available(loop.time())
        await requests.source.close()
        return level

    assert int(in_virtual_time(story)) == 800
