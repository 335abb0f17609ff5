"""Host names whose name server does not respond keep no other request from connecting."""

import asyncio
import errno
import socket
import threading

import pytest

from headgate.api.marks import Address
from headgate.flow.limits import LeasedBudget
from headgate.lookup import Lookup
from headgate.quota.redis_access import RedisAccess
from headgate.quota.redis_transport import RedisTransport
from headgate.quota.transport import Unreachable


@pytest.fixture
def names(monkeypatch):
    """A name server that does not answer for `*.slow`; gives the names that were asked for."""
    asked, answering = [], threading.Event()

    def look_up(host, port, **options):
        asked.append(host)
        if host.endswith(".slow"):
            answering.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in KNOWN[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield asked
    answering.set()


CLAIM = LeasedBudget("m:input", "member", 100, 60, 0.0, lambda budget: None, 1).claim(0.0)
KNOWN = {"engine.fast": ["127.0.0.1"], "two.fast": ["127.0.0.9", "127.0.0.9", "127.0.0.1"]}


async def test_many_names_that_are_slow(names):
    """Requests to Redis servers that routes name do not wait for each other, and neither does an endpoint."""
    servers = [RedisTransport(Address.parse(f"redis-{n}.slow:6379"), RedisAccess()) for n in range(40)]
    asking = [asyncio.create_task(server.exchange([("a", CLAIM)], None)) for server in servers]
    while len(names) < len(servers):
        await asyncio.sleep(0.001)
    assert await Lookup("engine.fast").addresses() == ["127.0.0.1"]
    assert not any(task.done() for task in asking)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_a_name_is_looked_up_once_at_a_time(names, caplog):
    """However often it is asked for, and whether or not anybody still waits for it."""
    lookup = Lookup("redis.slow")
    for _ in range(5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await lookup.addresses()
        while not names:  # the thread that asks may begin late
            await asyncio.sleep(0.001)
    assert names == ["redis.slow"]
    assert not caplog.records


async def test_an_address_is_not_looked_up(names):
    """Nor is there a thread for it."""
    assert await Lookup("127.0.0.1").addresses() == ["127.0.0.1"]
    assert await Lookup("::1").addresses() == ["::1"]
    assert names == []


async def test_the_next_address_is_tried(names):
    """As long as it is the address that cannot be reached."""
    tried = []

    async def connect(address):
        tried.append(address)
        if address == "127.0.0.9":
            raise error
        return address

    error = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    assert await Lookup("two.fast").connected(connect) == "127.0.0.1"
    assert tried == ["127.0.0.9", "127.0.0.1"]
    error = ConnectionResetError(errno.ECONNRESET, "reset")
    with pytest.raises(ConnectionResetError):
        await Lookup("two.fast").connected(connect)


async def test_a_name_that_is_none_is_an_error(monkeypatch):
    """Of the Redis, as any other reason why it cannot be reached."""

    def look_up(host, port, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    server = RedisTransport(Address.parse("nowhere.example:6379"), RedisAccess())
    with pytest.raises(Unreachable, match="Name or service not known"):
        await server.exchange([("a", CLAIM)], None)


async def test_a_label_that_is_too_long_is_an_error():
    """No name server is asked for it."""
    with pytest.raises(OSError, match="not a valid name"):
        await Lookup("a" * 100 + ".example").addresses()
