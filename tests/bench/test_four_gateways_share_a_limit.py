"""The soak of limits in Redis, as far as it can be judged by counts: real processes, and a skewed load."""

import asyncio
import random

import limits_redis
import redis_rig

MONTH_S = 30 * 86_400
LIMIT = 5_000
"""A hundred requests, which do not come in again while the test runs."""


async def test_four_processes_let_through_what_the_limit_is():
    """Of 240 requests, as many pass as have room, less three leases of a sixteenth that may lie idle."""
    rng = random.Random(3)
    request = limits_redis.request()
    with redis_rig.redis_server() as server:
        way = redis_rig.Way(server.path)
        await way.open()
        async with limits_redis.gateways(way, 4, LIMIT, MONTH_S, wait_s=10.0) as gateways:
            for gateway in gateways:
                await gateway.connect(2)
            chosen = rng.choices(gateways, limits_redis.WEIGHTS, k=240)
            statuses = await asyncio.gather(*(each.ask(request) for each in chosen))
            told = [await gateway.end() for gateway in gateways]
        await way.close()
    served = statuses.count(200) * limits_redis.TOKENS
    assert 0.75 * LIMIT <= served <= LIMIT
    assert statuses.count(200) + statuses.count(429) == 240
    assert sum(each["waits"] for each in told) < 120
