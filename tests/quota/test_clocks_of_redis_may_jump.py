"""However Redis' clock jumps, nothing comes in twice: gateways tell it how much time has passed.

That the clock jumped by so much is what it looks like if what Redis has written down is of a time as much
earlier or later, which is what these tests do.
"""

import asyncio

import pytest

KEY = "kthena:ratelimit:m:input"
LIMIT, UNIT_S = 36_000, 3600
"""Ten tokens a second."""


@pytest.fixture
def jump(client):
    """Has the clock of Redis jump by so many seconds."""

    async def by(seconds: float) -> None:
        time, read = (await client.hget(KEY, "time")).split()
        stamp = f"{float(read) - seconds:.6f}"
        await client.hset(KEY, mapping={"last_update": stamp, "time": f"{time.decode()} {stamp}"})

    return by


@pytest.fixture
async def emptied(limiter):
    """A gateway that has used up the limit."""
    one = limiter()
    budget = one.budget(LIMIT, UNIT_S)
    assert await one.request(budget, LIMIT)
    return one, budget


@pytest.fixture
def look(emptied, eventually):
    """Has the gateway ask Redis."""
    one, budget = emptied

    async def look() -> None:
        claims = one.source.exchanges.claims
        budget.change(LIMIT, UNIT_S, asyncio.get_running_loop().time())
        await eventually(lambda: one.source.exchanges.claims > claims)

    return look


async def left(client) -> float:
    """Tokens that Redis has, or has given out and knows not to be used."""
    fields = await client.hgetall(KEY)
    leases = [value.split() for name, value in fields.items() if name.startswith(b"lease:")]
    return float(fields[b"tokens"]) + sum(int(granted) - int(used) for _, granted, used, _ in leases)


async def test_a_clock_that_goes_forward_fills_nothing(jump, look, client):
    """An hour that no gateway has seen pass brings nothing in."""
    await jump(3600)
    await look()
    assert await left(client) < LIMIT / 10


async def test_a_clock_that_goes_forward_ends_no_lease(jump, look, client):
    """What a gateway has on lease is not given to another as well."""
    time, _ = (await client.hget(KEY, "time")).split()
    await client.hset(KEY, "lease:other", f"3 900 300 {time.decode()}")
    await jump(3600)
    await look()
    assert (await client.hget(KEY, "lease:other")).startswith(b"3 900 300 ")


async def test_a_clock_that_goes_back_and_forth_fills_nothing_twice(jump, look, client):
    """As by a fail-over to a replica whose clock is behind, and back to the first."""
    for seconds in (-600, 600, -5, 5):
        await jump(seconds)
        await look()
    assert await left(client) < LIMIT / 10


async def test_limits_fill_up_after_a_clock_went_back(emptied, jump, eventually):
    """They need not wait until it is as late again."""
    one, budget = emptied
    await jump(-86_400)
    async with asyncio.timeout(30):
        while not await one.request(budget, 5):
            await asyncio.sleep(0.01)


async def test_the_time_of_an_account_never_goes_back(jump, look, client):
    """Leases end by it, neither early nor never."""
    times = []
    for seconds in (0, -600, 600, 86_400, -3):
        await jump(seconds)
        await look()
        times.append(float((await client.hget(KEY, "time")).split()[0]))
    assert times == sorted(times)
    assert times[-1] - times[0] < 600


async def test_what_kthenas_router_filled_is_not_filled_again(look, client):
    """It counts by the clock, and writes down when it did."""
    seconds, _ = await client.time()
    time, read = (await client.hget(KEY, "time")).split()
    before = f"{float(time) - 1800:.6f} {float(read) - 1800:.6f}"
    await client.hset(KEY, mapping={"tokens": "100", "last_update": f"{seconds}", "time": before})
    await look()
    assert await left(client) < 1_000
