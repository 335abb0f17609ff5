"""A slow connect does not hold up its request, which is sent to another endpoint meanwhile."""

import asyncio
import contextlib
import functools
import socket
import time
from types import SimpleNamespace

import pytest


@pytest.fixture
def unreachable():
    """A port whose backlog is full, so that the system drops what else would connect: as a dead host does."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield SimpleNamespace(port=listener.getsockname()[1], listener=listener)


def know_connects(gateway, seconds=0.001):
    (pool,) = gateway.shell.plane.pools.values()
    for _ in range(50):
        pool.evidence.connects.note(seconds)
    return pool


async def test_the_request_goes_elsewhere(start_gateway, start_endpoint, unreachable):
    """Long before the connection has failed."""
    gateway = await start_gateway(
        unreachable, await start_endpoint(b"yes"), settings={"endpoints_connect_timeout_s": 60.0}
    )
    pool = know_connects(gateway)
    assert (await gateway.ask()).body == b"yes"
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="slow_connect") == 1
    assert (pool.loads[0].failures, pool.loads[0].avoided(gateway.shell.now())) == (0, True)


async def test_the_connection_counts_once_it_has_failed(
    start_gateway, start_endpoint, unreachable, eventually
):
    """Though nobody waits for it any more."""
    gateway = await start_gateway(
        unreachable, await start_endpoint(b"yes"), settings={"endpoints_connect_timeout_s": 1.0}
    )
    pool = know_connects(gateway)
    assert (await gateway.ask()).body == b"yes"
    await eventually(lambda: pool.loads[0].failures == 1)


async def test_a_gateway_that_was_busy_looks_again(start_gateway, start_endpoint, unreachable):
    """The first look comes late, by no fault of the endpoint; the next does not."""
    gateway = await start_gateway(
        unreachable, await start_endpoint(b"yes"), settings={"endpoints_connect_timeout_s": 60.0}
    )
    know_connects(gateway)
    looks = []

    class Busy:
        """The event loop, which has other work to do as the first look is due."""

        def __init__(self, loop):
            self._loop = loop

        def __getattr__(self, name):
            return getattr(self._loop, name)

        def call_later(self, seconds, callback, *args):
            is_look = callback.__name__ == "_is_slow"
            called = functools.partial(self._look, callback) if is_look else callback
            return self._loop.call_later(seconds, called, *args)

        def _look(self, look, due_at):
            looks.append(due_at)
            if len(looks) == 1:
                time.sleep(0.2)
            look(due_at)

    gateway.shell.services.loop = Busy(gateway.shell.services.loop)
    assert (await gateway.ask()).body == b"yes"
    assert len(looks) >= 2
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="slow_connect") == 1


async def test_a_connection_that_comes_late_is_kept(start_gateway, start_endpoint, monkeypatch, eventually):
    """It serves the next request, and nothing has failed."""
    slow, other = await start_endpoint(b"slow"), await start_endpoint(b"yes")
    gateway = await start_gateway(slow, other)
    pool = know_connects(gateway)
    connections = gateway.shell.services.connections_to(pool, pool.loads[0])
    connect = type(connections).connect

    async def slowly(self):
        if self is connections:
            await asyncio.sleep(0.5)
        return await connect(self)

    monkeypatch.setattr(type(connections), "connect", slowly)
    assert (await gateway.ask()).body == b"yes"
    await eventually(lambda: connections.statistics()["idle"] == 1)
    assert pool.loads[0].failures == 0
    gateway.move(1.1)
    assert (await gateway.ask()).body == b"slow"
    assert len(slow.connections) == 1


async def test_the_only_endpoint_is_waited_for(start_gateway, start_endpoint, unreachable):
    """As long as connecting may take."""
    gateway = await start_gateway(unreachable, settings={"endpoints_connect_timeout_s": 0.6})
    know_connects(gateway)
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="connect") == 1


async def test_nobody_waits_for_it_any_more(start_gateway, start_endpoint, unreachable, eventually):
    """A client that leaves ends the attempt and counts once."""
    gateway = await start_gateway(unreachable, await start_endpoint())
    know_connects(gateway, seconds=60.0)  # it leaves long before the connection is slow
    client = await gateway.connect()
    client.post()
    await eventually(lambda: gateway.shell.services.background._tasks)
    client.close()
    await eventually(lambda: gateway.settled == 1)
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0


async def test_a_busy_gateway_blames_nobody(start_gateway, start_endpoint, monkeypatch):
    """Its own delay looks like a slow connection, which is here already."""
    first = await start_endpoint(b"first")
    gateway = await start_gateway(first, await start_endpoint(b"other"))
    pool = know_connects(gateway)
    connections = gateway.shell.services.connections_to(pool, pool.loads[0])
    connect = type(connections).connect

    def busily(self):
        time.sleep(0.5)
        return connect(self)

    monkeypatch.setattr(type(connections), "connect", busily)
    assert (await gateway.ask()).body == b"first"
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0
