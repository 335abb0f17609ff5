"""A gateway counts in a bounded number of Redis servers, and rarely asks those that never answered."""

import asyncio
import random

import msgspec

from headgate import api, routing
from headgate.flow.limits import LeasedBudget, LocalBudget
from headgate.quota.lease_source import LeaseSource
from headgate.quota.sources import MAX_ADDRESSES, Sources
from headgate.quota.transport import Unreachable


def made(number):
    spec = {
        "modelName": f"m{number}",
        "rules": [{"targetModels": [{"modelServerName": "pool"}]}],
        "rateLimit": {
            "inputTokensPerUnit": 1000,
            "global": {"redis": {"address": f"redis-{number}.invalid:6379"}},
        },
    }
    source = {"metadata": {"name": f"r{number}", "namespace": "default"}, "spec": spec}
    snapshot = routing.translate([msgspec.convert(source, api.ModelRoute)], [], [])
    (route,) = snapshot.models[f"m{number}"]
    return route


async def test_addresses_beyond_the_bound_are_counted_here(caplog, settings):
    """The routes that name them say so; those of addresses that are known already are counted there."""
    loop = asyncio.get_running_loop()
    sources = Sources(settings, loop, random.Random(1))
    try:
        budgets = [sources.make(made(number), "input", 1000, loop.time()) for number in range(600)]
        assert [isinstance(budget, LeasedBudget) for budget in budgets] == [
            number < MAX_ADDRESSES for number in range(600)
        ]
        assert isinstance(budgets[-1], LocalBudget)
        assert len(sources.all()) == MAX_ADDRESSES
        assert "at most 32 Redis servers" in sources.trouble("redis-599.invalid:6379", "m599")
        assert sources.trouble("redis-0.invalid:6379", "m0") is None
        assert caplog.text.count("at most 32 Redis servers") == 1
        assert isinstance(sources.make(made(0), "input", 1000, loop.time()), LeasedBudget)
    finally:
        await sources.close()


async def test_hosts_that_the_operator_names_have_places_of_their_own(settings):
    """Whoever may write ModelRoutes cannot take them all by naming other hosts first."""
    loop = asyncio.get_running_loop()
    settings = msgspec.structs.replace(settings, redis_hosts=("redis-99.invalid",))
    sources = Sources(settings, loop, random.Random(1))
    try:
        for number in range(MAX_ADDRESSES + 1):
            budget = sources.make(made(number), "input", 1000, loop.time())
        assert isinstance(budget, LocalBudget)
        assert isinstance(sources.make(made(99), "input", 1000, loop.time()), LeasedBudget)
    finally:
        await sources.close()


class Absent:
    """Nobody there, until somebody is."""

    notice = ""

    def __init__(self):
        self.asked = 0

    async def exchange(self, claims, presence):
        self.asked += 1
        raise Unreachable("refused")

    async def close(self):
        pass


def asked(in_virtual_time, is_used):
    """How often in ten minutes."""

    async def story(loop):
        transport = Absent()
        source = LeaseSource("test", transport, loop, random.Random(1), 0.05)
        source.start()
        try:
            budget = source.budget("kthena:ratelimit:m:input", 1_000, 3600)
            await asyncio.sleep(1)
            if is_used:
                assert budget.take(10, loop.time())
            await asyncio.sleep(599)
            return transport.asked
        finally:
            await source.close()

    return in_virtual_time(story)


def test_absent_server_is_asked_rarely_while_no_request_counts(in_virtual_time):
    assert asked(in_virtual_time, is_used=False) < 50
    assert asked(in_virtual_time, is_used=True) > 300
