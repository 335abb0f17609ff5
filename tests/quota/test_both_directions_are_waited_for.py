"""A request of a route that limits input and output waits for both, and is not refused if there are both."""

import asyncio
import random

from headgate import routing
from headgate.api import ObjectRef
from headgate.flow.limits import LeaseAccount, LocalBudget, RouteLimit, Standing
from headgate.quota.sources import Sources

LIMIT = 10_000_000
KEY = ObjectRef("networking.volcano.sh/ModelRoute", "default", "route")
LIMITS = routing.TokenLimits(input=LIMIT, output=LIMIT, unit="hour", unit_s=3600)


class Accounts:
    """Those of a supervisor that is busy: each answer takes `delay_s`."""

    notice = ""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self._by_name: dict[str, LeaseAccount] = {}

    async def exchange(self, claims, presence):
        now = asyncio.get_running_loop().time()
        grants = [self._account(name, now).claim(claim, now) for name, claim in claims]
        await asyncio.sleep(self.delay_s)
        return grants, Standing(members=3) if presence else None

    def _account(self, name, now):
        return self._by_name.setdefault(name, LeaseAccount(LocalBudget(LIMIT, 3600, now), name))

    async def close(self):
        pass


class Worker:
    """One of several, with a limited route."""

    def __init__(self, loop, settings) -> None:
        self.accounts = Accounts()
        self.sources = Sources(settings, loop, random.Random(1), self.accounts)
        route = routing.Route(key=KEY, name="route", model="m", adapters=(), rules=(), limits=LIMITS)
        self.limit = RouteLimit(route, self.sources.make, loop.time())
        self._loop = loop

    async def request(self, input_tokens=50, output_tokens=10) -> bool:
        """Whether it may go."""
        if self._reserves(input_tokens, output_tokens):
            return True
        ended = asyncio.Event()
        if self.sources.wait(self.limit, input_tokens, output_tokens, ended.set) is None:
            return False
        await ended.wait()
        return self._reserves(input_tokens, output_tokens)

    def _reserves(self, input_tokens, output_tokens):
        return self.limit.reserve(input_tokens, output_tokens, self._loop.time()) is not None


def test_what_waits_behind_another_exchange_goes_by_its_shares(in_virtual_time, settings):
    """Its time is up for both directions, though it was woken by one."""

    async def story(loop):
        worker = Worker(loop, settings)
        worker.accounts.delay_s = 0.04
        await asyncio.sleep(0.01)  # the first exchange tells that the worker is there
        served = await worker.request()
        parted = [account.budget.is_parted for account in worker.limit.accounts()]
        await worker.sources.close()
        return served, parted

    assert in_virtual_time(story) == (True, [True, True])


def test_a_direction_that_goes_by_its_share_is_not_waited_for(in_virtual_time, settings):
    """The other one is asked for what it lacks."""

    async def story(loop):
        worker = Worker(loop, settings)
        await asyncio.sleep(0.1)
        worker.limit.input.budget.disconnect(loop.time())
        served = await worker.request()
        await worker.sources.close()
        return served

    assert in_virtual_time(story)


def test_a_share_that_is_used_up_refuses_at_once(in_virtual_time, settings):
    """No lease of the other direction would help."""

    async def story(loop):
        worker = Worker(loop, settings)
        await asyncio.sleep(0.1)
        worker.limit.input.budget.disconnect(loop.time())
        assert worker.limit.input.budget.take(
            int(worker.limit.input.budget.available(loop.time())), loop.time()
        )
        began = loop.time()
        served = await worker.request()
        await worker.sources.close()
        return served, loop.time() - began

    served, took_s = in_virtual_time(story)
    assert not served
    assert took_s < 0.05
