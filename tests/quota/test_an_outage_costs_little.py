"""While gateways cannot count together, they use nearly the limit, and no more, however load is spread."""

import asyncio
import random

from headgate.flow.limits import LeaseAccount, LocalBudget, ShareBook
from headgate.quota.lease_source import LeaseSource
from headgate.quota.transport import Unreachable

PER_S, TOKENS = 6_000, 50
LOAD = (0.70, 0.20, 0.09, 0.01)
"""Of what is asked for, which is twice the limit."""
STEP_S = 0.05


class Store:
    """An account and a book that several gateways reach, or none does."""

    def __init__(self, now: float) -> None:
        self.account = LeaseAccount(LocalBudget(PER_S, 1, now), "one")
        self.book = ShareBook(now)
        self.is_away = False


class Way:
    """Of one gateway to it."""

    notice = ""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    async def exchange(self, claims, presence):
        if self._store.is_away:
            raise Unreachable("nobody there")
        now = asyncio.get_running_loop().time()
        grants = [self._store.account.claim(claim, now) for _, claim in claims]
        return grants, self._store.book.note(self._name, presence, now) if presence else None

    async def close(self):
        pass


def test_nearly_the_limit_is_used_while_redis_is_away(in_virtual_time):
    """70, 20, 9 and 1 in a hundred requests come to four gateways, which knew each other for a minute."""

    async def story(loop):
        store = Store(loop.time())
        sources = []
        for which in range(len(LOAD)):
            way = Way(store, f"g{which}")
            sources.append(LeaseSource(way._name, way, loop, random.Random(which), 0.05))
            sources[-1].start()
        budgets = [source.budget("kthena:ratelimit:m:input", PER_S, 1) for source in sources]

        async def serve(seconds: float) -> int:
            served = 0
            owed = [0.0] * len(LOAD)
            for _ in range(round(seconds / STEP_S)):
                for which, budget in enumerate(budgets):
                    owed[which] += 2 * PER_S * STEP_S * LOAD[which] / TOKENS
                    while owed[which] >= 1:
                        owed[which] -= 1
                        if budget.take(TOKENS, loop.time()):
                            served += TOKENS
                        else:
                            sources[which].ask(budget, TOKENS, int)
                await asyncio.sleep(STEP_S)
            return served

        await serve(60.0)
        store.is_away = True
        await serve(2.0)
        assert all(budget.is_parted for budget in budgets)
        served = await serve(30.0)
        for source in sources:
            await source.close()
        return served / (30.0 * PER_S)

    assert 0.9 < in_virtual_time(story) <= 1.0
