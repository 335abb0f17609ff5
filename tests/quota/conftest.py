"""A real Redis, and gateways' sources of leases that reach it by a way that can fail."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import uvloop

import redis_rig
from headgate import quota
from headgate.api.marks import Address
from headgate.flow.limits import LeasedBudget
from headgate.quota.lease_source import LeaseSource
from headgate.quota.redis_access import RedisAccess
from headgate.quota.redis_transport import RedisTransport


def pytest_asyncio_loop_factories(config, item):
    """On the loop that gateways run on; the other is no different here, and everything takes its time."""
    return {"uvloop": uvloop.new_event_loop}


PATIENCE_S = 30.0
"""Nothing here takes nearly as long: it only turns a hang into a failure."""


@pytest.fixture(scope="module")
def redis_server() -> Iterator[redis_rig.RedisServer]:
    """Of a module; it fails, with what to do, where there is none to be run."""
    with redis_rig.redis_server() as server:
        yield server


@pytest.fixture
async def way(redis_server, held_port) -> AsyncIterator[redis_rig.Way]:
    """To an empty Redis."""
    way = redis_rig.Way(redis_server.path, held_port())
    await way.open()
    transport = RedisTransport(Address.parse(way.address), RedisAccess())
    client = await transport._connect()
    await client.flushall()
    await client.aclose()
    yield way
    await way.close()


@pytest.fixture
async def client(way):
    """To look into Redis."""
    client = await RedisTransport(Address.parse(way.address), RedisAccess())._connect()
    yield client
    await client.aclose()


class Limiter:
    """A gateway's source, and how its requests use it."""

    def __init__(self, source: LeaseSource) -> None:
        self.source = source
        self.longest_wait_s = 0.0

    def budget(self, limit: int, unit_s: int = 60, account: str = "kthena:ratelimit:m:input") -> LeasedBudget:
        return self.source.budget(account, limit, unit_s)

    async def request(self, budget: LeasedBudget, tokens: int) -> bool:
        """As the data path does it: what is not on lease is waited for once."""
        loop = asyncio.get_running_loop()
        if budget.take(tokens, loop.time()):
            return True
        ended = asyncio.Event()
        if self.source.ask(budget, tokens, ended.set) is None:
            return False
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()
        return budget.take(tokens, loop.time())


@pytest.fixture
async def limiter(way) -> AsyncIterator[Callable[..., Limiter]]:
    """Makes gateways; `wait_s` is long, as it is the machine's speed that would be tested else."""
    made: list[LeaseSource] = []

    def make(wait_s: float = PATIENCE_S, is_strict: bool = False, **access: str) -> Limiter:
        transport = RedisTransport(Address.parse(way.address), RedisAccess(**access))
        loop = asyncio.get_running_loop()
        source = LeaseSource("redis", transport, loop, random.Random(len(made)), wait_s, is_strict)
        made.append(source)
        source.start()
        return Limiter(source)

    yield make
    for source in made:
        await source.close()


@pytest.fixture
def settings() -> quota.Settings:
    """As a gateway has them that is told nothing."""
    return quota.Settings(
        is_strict=False, wait_s=0.05, gateways=1, redis_hosts=(), redis_tls=False, redis_ca_file=None
    )


@pytest.fixture
def eventually() -> Callable:
    """Waits for a condition."""

    async def wait(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.005)

    return wait
