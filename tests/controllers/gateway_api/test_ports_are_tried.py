"""Places that accept connections, and places that do not."""

import asyncio
import contextlib

import pytest

from headgate.controllers.gateway_api import listening
from headgate.controllers.gateway_api.listening import Listening, Place


@pytest.fixture
async def followed():
    """A Listening that runs, and the event of its changes."""
    changed = asyncio.Event()
    places = Listening(changed.set)
    task = asyncio.create_task(places.run())
    yield places, changed
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _news(changed: asyncio.Event) -> None:
    async with asyncio.timeout(30):
        await changed.wait()
    changed.clear()


async def _served(port: int = 0) -> tuple[asyncio.Server, Place]:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    return server, Place("127.0.0.1", server.sockets[0].getsockname()[1])


async def test_a_port_that_opens_later_is_found(followed, unused_tcp_port):
    """It is not known at first, then closed, then open."""
    places, changed = followed
    place = Place("127.0.0.1", unused_tcp_port)
    assert places.accepts(place) is None
    places.follow({place})
    await _news(changed)
    assert places.accepts(place) is False
    server, _ = await _served(place.port)
    async with server:
        await _news(changed)
    assert places.accepts(place) is True
    assert places.statistics() == {"places": 1, "accepting": 1}


async def test_a_port_that_closes_is_found(followed, monkeypatch):
    """An open one is tried from time to time."""
    monkeypatch.setattr(listening, "LATER_S", 0.05)
    places, changed = followed
    server, place = await _served()
    places.follow({place})
    await _news(changed)
    assert places.accepts(place) is True
    server.close()
    await server.wait_closed()
    await _news(changed)
    assert places.accepts(place) is False


async def test_what_is_no_longer_followed_is_forgotten(followed):
    """Also its address."""
    places, changed = followed
    server, place = await _served()
    async with server:
        places.follow({place})
        await _news(changed)
        places.follow(())
        assert places.accepts(place) is None
