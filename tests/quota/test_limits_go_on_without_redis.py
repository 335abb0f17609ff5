"""Whatever befalls Redis, requests are answered, by the local share if need be, and it is found again."""

import asyncio

import pytest

MONTH_S = 30 * 86_400
KEY = "kthena:ratelimit:m:input"


async def settled(client, expected: float) -> None:
    """Until Redis knows that so many tokens are left or on lease."""
    async with asyncio.timeout(30):
        while abs(await known(client) - expected) > 0.5:
            await asyncio.sleep(0.01)


async def known(client) -> float:
    fields = await client.hgetall(KEY)
    leases = [value.split() for name, value in fields.items() if name.startswith(b"lease:")]
    leased = sum(int(granted) - int(used) for _, granted, used, _ in leases)
    return float(fields.get(b"tokens", -1)) + leased


async def test_a_redis_that_is_gone_is_found_again(limiter, way, client, eventually):
    """Meanwhile the gateway goes by its share of what was left; afterwards Redis is told of it."""
    one, other = limiter(), limiter()
    budgets = [each.budget(1_000, MONTH_S) for each in (one, other)]
    served = 0
    while not all(budget.members == 2 for budget in budgets):
        for each, budget in zip((one, other), budgets, strict=True):
            served += await each.request(budget, 1)
        await asyncio.sleep(0.01)
    await way.close()
    await eventually(lambda: one.source.trouble and other.source.trouble)
    assert budgets[0].is_parted
    for each, budget in zip((one, other), budgets, strict=True):
        while await each.request(budget, 10):
            served += 10
    assert 900 <= served <= 1_100
    await way.open()
    await eventually(lambda: not (one.source.trouble or other.source.trouble))
    await settled(client, 1_000 - served)


async def test_a_redis_that_comes_back_empty_does_not_begin_anew(
    limiter, way, client, redis_server, eventually
):
    """What gateways know of the count that was lost, they tell to the new one."""
    one = limiter()
    budget = one.budget(1_000, MONTH_S)
    assert await one.request(budget, 700)
    redis_server.stop()
    await eventually(lambda: one.source.trouble)
    assert await one.request(budget, 100)
    redis_server.start()
    await eventually(lambda: not one.source.trouble)
    await settled(client, 200)


async def test_a_redis_that_loses_its_data_unnoticed_does_not_begin_anew(limiter, client, eventually):
    """The same where the connection never broke: the count has another epoch."""
    one = limiter()
    budget = one.budget(1_000, MONTH_S)
    assert await one.request(budget, 700)
    await client.flushall()
    assert not await one.request(budget, 400)
    assert await one.request(budget, 10)
    await settled(client, 290)
    assert not one.source.trouble


async def test_a_redis_that_is_slow_holds_nobody_up(limiter, way, eventually):
    """Answers that come too late are no reason to wait: the share is used until they come in time again."""
    one = limiter(wait_s=0.05)
    budget = one.budget(1_000, MONTH_S)
    await eventually(lambda: one.source.exchanges.count and not one.source.trouble)
    way.delay_s = 0.2
    assert await one.request(budget, 900)
    await eventually(lambda: one.source.trouble)
    assert "50 ms" in one.source.trouble
    await eventually(lambda: budget.statistics(0.0)["untold"] == 0)
    assert one.source.trouble
    way.delay_s = 0.0
    await eventually(lambda: not one.source.trouble)
    assert not budget.is_parted


async def test_a_redis_that_is_slow_but_in_time_is_used_again(limiter, way, eventually):
    """One late answer is not held against one that always takes more than half of the wait."""
    one = limiter(wait_s=1.0)
    budget = one.budget(1_000, MONTH_S)
    await eventually(lambda: one.source.exchanges.count and not one.source.trouble)
    way.delay_s = 1.5
    assert await one.request(budget, 900)
    await eventually(lambda: one.source.trouble)
    way.delay_s = 0.6
    await eventually(lambda: not one.source.trouble)
    assert not budget.is_parted


async def test_a_redis_that_hangs_holds_nobody_up(limiter, redis_server, eventually):
    """Who waits for an answer that never comes goes on after the time for it."""
    one = limiter(wait_s=0.05)
    budget = one.budget(1_000, MONTH_S)
    await eventually(lambda: one.source.exchanges.count and not one.source.trouble)
    redis_server.freeze()
    try:
        assert await one.request(budget, 500)
        assert one.source.trouble
    finally:
        redis_server.thaw()
    await eventually(lambda: not one.source.trouble)


async def test_a_redis_that_was_frozen_costs_nothing_of_the_limit_afterwards(limiter, redis_server):
    """It answers at last what was asked seconds ago, and cannot know how long that was on its way: what came
    in meanwhile covers what gateways let go by their shares."""
    one, limit = limiter(wait_s=0.05), 1_000
    budget = one.budget(limit, 1)
    loop = asyncio.get_running_loop()

    async def passed_in(seconds: float) -> int:
        """Tokens, of three times as many as may go."""
        before, until = budget.used, loop.time() + seconds
        while loop.time() < until:
            async with asyncio.TaskGroup() as asking:
                for _ in range(3):
                    asking.create_task(one.request(budget, limit // 100))
            await asyncio.sleep(0.01)
        return budget.used - before

    await passed_in(2.0)
    redis_server.freeze()
    try:
        assert await passed_in(3.9) > 2 * limit
    finally:
        redis_server.thaw()
    assert await passed_in(2.0) > 1.4 * limit


@pytest.mark.parametrize("cut_after", [1, 7, 60, 150])
async def test_an_answer_that_breaks_off_is_asked_for_again(limiter, way, client, eventually, cut_after):
    """Wherever the connection breaks, no token is counted twice, and none is forgotten."""
    one = limiter()
    budget = one.budget(1_000, MONTH_S)
    assert await one.request(budget, 100)
    way.cut_after = cut_after
    way.cut()
    for _ in range(5):
        assert await one.request(budget, 100)
    way.cut_after = None
    await eventually(lambda: not one.source.trouble)
    await settled(client, 400)


async def test_a_redis_that_may_not_write_counts_nothing(limiter, client, eventually):
    """A replica, as one finds it amid a failover, is no account; it is again once it is the primary."""
    one = limiter()
    budget = one.budget(1_000, MONTH_S)
    assert await one.request(budget, 100)
    await client.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        while not one.source.trouble:
            await one.request(budget, 1)
            await asyncio.sleep(0.01)
        assert "read only replica" in one.source.trouble
    finally:
        await client.execute_command("REPLICAOF", "NO", "ONE")
    await eventually(lambda: not one.source.trouble)


async def test_strict_limits_refuse_without_redis(limiter, way, eventually):
    """Where the limit must hold whatever happens, nothing goes that Redis has not granted."""
    one = limiter(is_strict=True)
    budget = one.budget(1_000, MONTH_S)
    assert await one.request(budget, 100)
    await way.close()
    await eventually(lambda: one.source.trouble)
    assert not await one.request(budget, 800)
    assert budget.is_cut_off
    await way.open()
    await eventually(lambda: not one.source.trouble)
    assert await one.request(budget, 800)


async def test_a_limit_that_is_new_while_redis_is_away_holds(limiter, way, eventually):
    """A gateway that never reached Redis allows what the limit is, as far as it knows of no other gateway."""
    await way.close()
    one = limiter()
    one.budget(1_000, account="kthena:ratelimit:other:input")
    await eventually(lambda: one.source.trouble)
    budget = one.budget(1_000, MONTH_S)
    assert await one.request(budget, 600)
    assert not await one.request(budget, 600)


async def test_a_redis_without_the_password_is_trouble(limiter, client, eventually):
    """What Redis says against it is told."""
    await client.config_set("requirepass", "secret")
    try:
        locked_out, let_in = limiter(), limiter(password="secret")
        locked_out.budget(1_000, MONTH_S)
        await eventually(lambda: locked_out.source.trouble)
        assert "REDIS_PASSWORD" in locked_out.source.trouble
        budget = let_in.budget(1_000, MONTH_S)
        assert await let_in.request(budget, 10)
        assert not let_in.source.trouble
    finally:
        await client.config_set("requirepass", "")


async def test_a_gateway_that_never_reached_redis_leaves_the_others_their_part(limiter, way, eventually):
    """As many gateways as the API server knows of have the limit between them."""
    await way.close()
    one = limiter()
    budget = one.budget(1_000, MONTH_S)
    await eventually(lambda: one.source.trouble)
    assert await one.request(budget, 100)
    one.source.expect(4)
    assert not await one.request(budget, 200)
    assert await one.request(budget, 150)
    other = one.budget(1_000, MONTH_S, account="kthena:ratelimit:other:input")
    assert not await one.request(other, 300)
    assert await one.request(other, 240)
