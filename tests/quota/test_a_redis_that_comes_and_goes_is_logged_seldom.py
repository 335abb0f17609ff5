"""A Redis that goes up and down many times a second fills no log, which ends with how it is."""

import asyncio
import itertools
import logging
import random

import pytest

from headgate.flow.limits import LeaseAccount, LocalBudget, Standing
from headgate.quota.lease_source import LeaseSource
from headgate.quota.transport import Refused, Unreachable


class Flapping:
    """An account that answers every second time it is asked, until it is well."""

    notice = ""

    def __init__(self, instead) -> None:
        self._account = LeaseAccount(LocalBudget(1_000, 3600, 0.0), "one")
        self._instead = instead
        self._turns = itertools.cycle((False, True))
        self.is_well = False

    async def exchange(self, claims, presence):
        await asyncio.sleep(0.001)
        if not self.is_well and next(self._turns):
            return self._instead(claims), Standing(members=1) if presence else None
        now = asyncio.get_running_loop().time()
        grants = [self._account.claim(claim, now) for _, claim in claims]
        return grants, Standing(members=1) if presence else None

    async def close(self):
        pass


def away(_):
    raise Unreachable("nobody there")


def refused(claims):
    return [Refused("it is something else") for _ in claims]


@pytest.mark.parametrize("instead", [away, refused])
def test_few_lines_tell_of_many_changes(in_virtual_time, caplog, instead):
    """Twenty changes a second wrote as many lines."""
    caplog.set_level(logging.INFO)

    async def story(loop):
        account = Flapping(instead)
        source = LeaseSource("redis://r", account, loop, random.Random(1), 0.05)
        source.start()
        budget = source.budget("kthena:ratelimit:m:input", 1_000, 3600)
        for _ in range(600):
            budget.charge(1, loop.time())
            source._budgets.call(budget)
            await asyncio.sleep(0.1)
        account.is_well = True
        changes = source.exchanges.count
        await asyncio.sleep(60)
        trouble = source.trouble
        await source.close()
        return changes, trouble

    changes, trouble = in_virtual_time(story)
    lines = [record.getMessage() for record in caplog.records]
    assert changes > 100
    assert len(lines) <= 10 + 60 / 10 + 2
    assert not trouble
    if instead is away:
        assert "answers again" in lines[-1]
        assert "left out before" in lines[-1]
