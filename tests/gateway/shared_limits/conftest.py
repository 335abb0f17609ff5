"""A real Redis behind a connection that can fail."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis.asyncio

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

import redis_rig


@pytest.fixture(scope="module")
def redis_server() -> Iterator[redis_rig.RedisServer]:
    """Of a module; it fails, with what to do, where there is none to be run."""
    with redis_rig.redis_server() as server:
        yield server


@pytest.fixture
async def way(redis_server, client, held_port) -> AsyncIterator[redis_rig.Way]:
    """To an empty Redis."""
    way = redis_rig.Way(redis_server.path, held_port())
    await way.open()
    await client.flushall()
    yield way
    await way.close()


@pytest.fixture
async def client(redis_server) -> AsyncIterator[redis.asyncio.Redis]:
    """To look into Redis."""
    async with redis.asyncio.Redis(unix_socket_path=redis_server.path, decode_responses=True) as client:
        yield client
