"""The password for Redis goes to hosts that the settings name, never to one that only a route names."""

import asyncio
import random

import msgspec
import pytest

import redis_rig
from headgate import routing
from headgate.api import ObjectRef
from headgate.quota.sources import Sources

SECRET = "hunter2"


class Listener:
    """A TCP server of somebody who hopes for a password; it keeps what it is sent."""

    def __init__(self) -> None:
        self.received = b""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            self.received += data
            writer.write(b"-NOAUTH Authentication required.\r\n" * data.count(b"*"))
        writer.close()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()


@pytest.fixture
async def listener():
    listener = Listener()
    await listener.start()
    yield listener
    await listener.stop()


@pytest.fixture
async def sources(monkeypatch, settings):
    """Makes what a gateway counts with, whose environment has the password, for a route with an address."""
    monkeypatch.setenv("REDIS_PASSWORD", SECRET)
    monkeypatch.setenv("REDIS_USERNAME", "default")
    made = []

    def make(address: str, **changed) -> Sources:
        loop = asyncio.get_running_loop()
        sources = Sources(msgspec.structs.replace(settings, **changed), loop, random.Random(1))
        made.append(sources)
        route = routing.Route(
            key=ObjectRef("ModelRoute", "tenant", "route"),
            name="tenant/route",
            model="m",
            adapters=(),
            rules=(),
            limits=routing.TokenLimits(input=1_000, unit="minute", unit_s=60, redis_address=address),
            uid="",
            created="2026-01-01T00:00:00Z",
        )
        sources.make(route, "input", 1_000, loop.time())
        return sources

    yield make
    for each in made:
        await each.close()


async def test_a_host_that_only_a_route_names_gets_no_password(sources, listener, eventually):
    """It gets neither name nor password; what is amiss names the setting, for the log and the condition."""
    (source,) = sources(listener.address).all()
    await eventually(lambda: "redis_hosts" in source.trouble)  # before, an answer may have been late
    assert listener.received
    assert SECRET.encode() not in listener.received
    assert b"AUTH" not in listener.received.upper()
    assert SECRET not in source.trouble


async def test_a_host_that_the_setting_names_gets_it(sources, listener, eventually):
    """The same server, named by the operator."""
    sources(listener.address, redis_hosts=("127.0.0.1",))
    await eventually(lambda: SECRET.encode() in listener.received)


async def test_another_host_is_not_spoken_to_where_hosts_are_named(sources, listener, eventually):
    """Then a route that names one more is refused by name."""
    (source,) = sources(listener.address, redis_hosts=("redis.example", "127.0.0.10")).all()
    await eventually(lambda: source.trouble)
    assert "redis_hosts" in source.trouble
    assert not listener.received


async def test_a_real_redis_says_what_to_set(sources, eventually):
    """`NOAUTH` of a server with a password comes to the setting, and with the setting it counts."""
    with redis_rig.redis_server("--requirepass", SECRET, "--port", "0") as server:
        way = redis_rig.Way(server.path)
        await way.open()
        try:
            (locked_out,) = sources(way.address).all()
            await eventually(lambda: "redis_hosts" in locked_out.trouble)
            assert "REDIS_PASSWORD" not in locked_out.trouble
            (let_in,) = sources(way.address, redis_hosts=("127.0.0.1",)).all()
            await eventually(lambda: let_in.exchanges.count and not let_in.trouble)
        finally:
            await way.close()
