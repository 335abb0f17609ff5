"""Fixtures: members on loopback ports; the rest is in `peer_world`."""

import sys
from pathlib import Path

import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))

from peer_world import Member


def pytest_asyncio_loop_factories(config, item):
    """Tests of sockets run on uvloop, as gateways and pickers do."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def member():
    """Starts members; each connects to the addresses that it is given."""
    started = []

    async def start(*addresses, **settings):
        started.append(Member(addresses=addresses, **settings))
        return await started[-1].start()

    yield start
    for each in started:
        await each.stop()
