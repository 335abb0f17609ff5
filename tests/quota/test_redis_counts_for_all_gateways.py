"""Gateways that share a Redis use one limit between them, under Kthena's key."""

import asyncio
import time

import pytest

from headgate.api.marks import Address
from headgate.flow.limits import Claim, LeasedBudget
from headgate.quota import redis_members
from headgate.quota.redis_access import RedisAccess
from headgate.quota.redis_transport import RedisTransport

KEY = "kthena:ratelimit:m:input"


async def test_gateways_use_one_limit(limiter):
    """R34: what several gateways let through together is the limit, to the token."""
    gateways = [limiter() for _ in range(4)]
    budgets = [each.budget(1_000, unit_s=30 * 86_400) for each in gateways]
    served = [0] * 4
    for turn in range(120):
        which = (0, 0, 0, 1, 0, 2, 0, 3)[turn % 8]
        served[which] += 10 * await gateways[which].request(budgets[which], 10)
    for each in gateways:
        await each.source.close()
    rest = limiter()
    budget = rest.budget(1_000, unit_s=30 * 86_400)
    left = 0
    while await rest.request(budget, 1):
        left += 1
    assert sum(served) + left == 1_000


@pytest.mark.parametrize(("unit_s", "expiry_s"), [(1, 600), (3_600, 10_800), (2_592_000, 7_776_000)])
async def test_an_account_is_kept_for_three_units(limiter, client, unit_s, expiry_s):
    """R34: the key is Kthena's, and so is how long it is kept."""
    one = limiter()
    assert await one.request(one.budget(1_000, unit_s), 10)
    assert expiry_s - 60 < await client.ttl(KEY) <= expiry_s
    fields = await client.hgetall(KEY)
    assert {b"tokens", b"last_update"} < fields.keys()


async def test_an_account_of_kthenas_router_is_gone_on_with(limiter, client):
    """What Kthena's router wrote is what is left; time is that of Redis."""
    seconds, _ = await client.time()
    await client.hset(KEY, mapping={"tokens": "40.5", "last_update": str(seconds)})
    one = limiter()
    budget = one.budget(1_000, unit_s=30 * 86_400)
    assert not await one.request(budget, 42)
    assert await one.request(budget, 40)


async def test_leases_of_the_dead_return_in_redis(limiter, client):
    """A lease whose gateway said nothing for longer than it lasts is there for others."""
    seconds, _ = await client.time()
    state = {"tokens": "10", "last_update": str(seconds), "epoch": "one"}
    state |= {"lease:dead": f"3 900 300 {seconds - 12}", "lease:alive": f"3 200 100 {seconds - 2}"}
    await client.hset(KEY, mapping=state)
    one = limiter()
    budget = one.budget(10_000, unit_s=30 * 86_400)
    assert not await one.request(budget, 620)
    assert await one.request(budget, 610)
    assert (await client.hget(KEY, "lease:dead")).startswith(b"3 300 300 ")


async def test_the_long_silent_are_forgotten(limiter, client):
    """Redis keeps no word of gateways that ended long ago."""
    seconds, _ = await client.time()
    await client.hset(KEY, mapping={"epoch": "one", "lease:old": f"3 300 300 {seconds - 4000}"})
    one = limiter()
    await one.request(one.budget(10_000), 10)
    assert await client.hget(KEY, "lease:old") is None


async def test_gateways_are_counted(limiter, client, eventually):
    """Each knows how many there are, which is what the limit is divided by while Redis is away."""
    gateways = [limiter() for _ in range(3)]
    for each in gateways:
        each.budget(1_000)
    await eventually(lambda: all(each.source.statistics()["exchanges"] for each in gateways))
    names = await client.hkeys(redis_members.KEY)
    assert sum(name.startswith(b"gateway:") for name in names) == 3
    last = limiter()
    budget = last.budget(1_000)
    assert await last.request(budget, 1)
    assert budget.members == 4


async def test_scripts_are_sent_again_to_a_redis_that_lost_them(limiter, client):
    """They are called by their digests, which a Redis that was restarted does not know."""
    one = limiter()
    budget = one.budget(1_000)
    assert await one.request(budget, 10)
    await client.script_flush()
    budget.give_back(0, time.monotonic())
    assert await one.request(budget, 400)
    assert not one.source.trouble


async def test_a_key_that_is_something_else_hurts_no_other(limiter, client):
    """One account that Redis cannot count leaves the others as they are."""
    await client.set("kthena:ratelimit:odd:input", "text")
    one = limiter()
    odd, good = one.budget(1_000, account="kthena:ratelimit:odd:input"), one.budget(1_000, unit_s=2_592_000)
    results = await asyncio.gather(one.request(odd, 600), one.request(good, 600))
    assert results == [True, True]
    assert odd.is_parted
    assert not good.is_parted
    assert not one.source.trouble
    assert not await one.request(good, 600)


async def test_what_is_left_is_given_back_at_the_end(limiter, client):
    """A gateway that ends in good order has nothing on lease any more."""
    one = limiter()
    assert await one.request(one.budget(1_000, unit_s=2_592_000), 10)
    await one.source.close()
    assert float(await client.hget(KEY, "tokens")) == pytest.approx(990, abs=0.1)


async def test_an_answer_that_nobody_waits_for_is_not_taken_for_another(way, eventually):
    """What was given up before its answer came is not answered with the next."""
    transport = RedisTransport(Address.parse(way.address), RedisAccess())

    def claim(limit: int) -> list[tuple[str, Claim]]:
        budget = LeasedBudget("", "me", limit, 2_592_000, 0.0, lambda _: None)
        return [(f"kthena:ratelimit:{limit}:input", budget.claim(0.0))]

    await transport.exchange(claim(100), None)
    way.delay_s = 0.1
    passed = way.passed
    given_up = asyncio.create_task(transport.exchange(claim(200), None))
    await eventually(lambda: way.passed > passed)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    way.delay_s = 0.0
    (grant,), _ = await transport.exchange(claim(300), None)
    assert grant.level == pytest.approx(300, abs=1)
    await transport.close()
