"""The number of client connections is limited; connections beyond the limit get an error."""

import asyncio
import logging
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane import trust
from headgate.gateway import GatewaySettings, limits

pytestmark = pytest.mark.every_loop


async def _turned_away(client) -> str:
    response = await client.response()
    assert (response.status, response.header("connection"), response.header("retry-after")) == (
        503,
        "close",
        "1",
    )
    assert await client.is_closed()
    return response.json["error"]["code"]


async def test_clients_in_total(start_gateway, endpoint, eventually):
    """One too many is told so; when another leaves, there is room again."""
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 2})
    clients = [await gateway.connect() for _ in range(2)]
    for client in clients:
        client.post()
    calls = [await endpoint.call() for _ in clients]
    assert await _turned_away(await gateway.connect()) == "too_many_clients"
    assert gateway.metric("headgate_gateway_rejected_total", reason="too_many_clients") == 1
    calls[0].answer()
    calls[1].answer()
    for client in clients:
        assert (await client.response()).status == 200
    endpoint.behave = lambda call: call.answer()
    clients[1].close()
    await eventually(lambda: len(gateway.shell.clients.all) == 1)
    assert (await gateway.ask()).status == 200


async def test_silent_clients_make_room(start_gateway, endpoint, eventually):
    """Connections that ask nothing keep nobody out; one whose request is being served stays."""
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 3})
    busy = await gateway.connect()
    busy.post()
    call = await endpoint.call()
    silent = []
    for count in (2, 3):
        silent.append(await gateway.connect())
        await eventually(lambda count=count: len(gateway.shell.clients.all) == count)
        accepted_at = gateway.shell.now()
        await eventually(lambda at=accepted_at: gateway.shell.now() > at)  # uvloop counts milliseconds
    endpoint.behave = lambda call: call.answer()
    fresh = await gateway.connect()
    fresh.post()
    assert (await fresh.response()).status == 200
    assert await silent[0].is_closed()
    silent[1].post()
    assert (await silent[1].response()).status == 200
    call.answer()
    assert (await busy.response()).status == 200
    assert gateway.metric("headgate_gateway_rejected_total", reason="idle_displaced") == 1
    assert gateway.shell.clients._count.statistics()["clients"] == 3


@pytest.mark.parametrize(
    "begun", [b"P", b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 9\r\n\r\nx"]
)
async def test_requests_that_never_end_make_room(start_gateway, endpoint, eventually, begun):
    """A few bytes of a request hold a place only as long as an honest client needs to send the others."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 1})
    slow = await gateway.connect()
    slow.send(begun)
    await eventually(lambda: any(client.reading_since for client in gateway.shell.clients.all))
    assert await _turned_away(await gateway.connect()) == "too_many_clients"
    later = asyncio.get_running_loop().time() + limits.SLOW_S + 1
    gateway.shell.services.now = lambda: later
    fresh = await gateway.connect()
    fresh.post()
    assert (await fresh.response()).status == 200
    assert await slow.is_closed()


class _Connection:
    def __init__(self, address, since):
        self.address, self.since, self.looks = address, since, 0

    def unused_since(self, now):
        self.looks += 1
        return self.since


def test_address_with_most_idle_connections_makes_room():
    """Who floods the gateway displaces itself; one old connection of another client stays to the last."""
    others = [_Connection("192.0.2.1", 1.0), _Connection("2001:db8::1", 0.0), _Connection("192.0.2.3", None)]
    flood = [_Connection(f"2001:db8:1::{number + 1}", 10.0 + number) for number in range(5)]
    unused = limits.Unused()
    order = [unused.next([*others, *flood], 100.0) for _ in range(8)]
    assert order == [*flood[:4], others[1], others[0], flood[4], None]


def test_search_for_idle_connections_is_rare():
    """However many come while all are busy, the connections are looked at four times a second at most."""
    busy = [_Connection("192.0.2.1", None) for _ in range(10)]
    unused = limits.Unused()
    for attempt in range(1000):
        assert unused.next(busy, 1.0 + attempt / 1000) is None
    assert [each.looks for each in busy] == [4] * 10


def test_connection_that_came_into_use_stays():
    """What was idle when it was looked at may have a request by now."""
    first, second = _Connection("192.0.2.1", 1.0), _Connection("192.0.2.1", 2.0)
    unused = limits.Unused()
    assert unused.next([first, second, _Connection("192.0.2.1", 3.0)], 10.0) is first
    second.since = 10.1
    assert unused.next([], 10.2).since == 3.0


async def test_clients_of_one_address(start_gateway, endpoint, eventually):
    """With a limit for each address, one client cannot take all of the room."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings={"clients_max_connections_per_address": 2})
    clients = [await gateway.connect() for _ in range(2)]
    await eventually(lambda: len(gateway.shell.clients.all) == 2)
    assert await _turned_away(await gateway.connect()) == "too_many_clients_of_address"
    for client in clients:
        client.close()
    await eventually(lambda: not gateway.shell.clients.all)
    assert (await gateway.ask()).status == 200
    await eventually(lambda: gateway.shell.clients._count.statistics() == {"clients": 0, "addresses": 0})


async def test_trusted_proxies_are_not_one_client(start_gateway, endpoint, eventually):
    """A load balancer has the connections of all clients behind it: the limit of an address is not for it."""
    limits = {"clients_max_connections_per_address": 1, "clients_trusted_networks": ("127.0.0.0/8",)}
    gateway = await start_gateway(endpoint, settings=limits)
    for _ in range(3):
        await gateway.connect()
    await eventually(lambda: len(gateway.shell.clients.all) == 3)
    assert gateway.shell.clients._count.statistics() == {"clients": 3, "addresses": 0}


async def test_client_turned_away_is_not_parsed(start_gateway, endpoint, eventually):
    """Whatever it sends, it is told the same, and can read it although it was sending."""
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 0})
    client = await gateway.connect()
    for _ in range(20):
        client.send(b"\x00" * 100_000)
        await client.writer.drain()
    assert await _turned_away(client) == "too_many_clients"
    assert gateway.metric("headgate_gateway_rejected_total") == 1
    assert endpoint.calls == []


async def test_flood_of_clients_turned_away(start_gateway, endpoint, eventually, monkeypatch):
    """Few of them may linger, and not for long: the limit holds, whatever they do."""
    monkeypatch.setattr("headgate.gateway.clients.MAX_TURNED_AWAY", 3)
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 0})
    clients = [await gateway.connect() for _ in range(20)]
    for client in clients:
        assert (await client.response()).status == 503
    assert len(gateway.shell.clients._turned_away) == 3
    later = asyncio.get_running_loop().time() + 3
    gateway.shell.services.now = lambda: later
    gateway.shell._sweep()
    await eventually(lambda: not gateway.shell.clients._turned_away)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b", "c"])), max_size=60))
def test_count_of_clients(moves):
    """Clients come and go in any order: nobody is above a limit, and whoever may come in does."""
    count = limits.ClientCount(
        GatewaySettings().replace(clients_max_connections=5, clients_max_connections_per_address=3)
    )
    here: list[str] = []
    for comes, address in moves:
        if comes:
            refused = len(here) == 5 or here.count(address) == 3
            assert (count.admit(address) is not None) == refused
            here += [] if refused else [address]
        elif address in here:
            here.remove(address)
            count.left(address)
        assert count.statistics() == {"clients": len(here), "addresses": len(set(here))}


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("somewhere", "somewhere"),
    ],
)
def test_address_that_a_client_counts_under(address, counted_as):
    """A host has a whole IPv6 network of addresses, and one IPv4 address, however it is written."""
    assert trust.counted_as(address) == counted_as


def _limit_is(monkeypatch, soft, hard):
    raised = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: raised.append(new))
    return raised


def test_descriptors_that_may_be_had_are_asked_for(monkeypatch):
    """The soft limit is raised to what the clients need, and no further."""
    raised = _limit_is(monkeypatch, 1024, 1_000_000)
    assert limits.affordable(GatewaySettings()).clients.max_connections == 10_000
    assert raised == [(20_256, 1_000_000)]


def test_few_descriptors_mean_few_clients(monkeypatch, caplog):
    """Where the hard limit is too low, fewer clients are taken, and the log says what to do."""
    raised = _limit_is(monkeypatch, 1024, 4096)
    with caplog.at_level(logging.WARNING):
        assert limits.affordable(GatewaySettings()).clients.max_connections == 1920
    assert raised == [(4096, 4096)]
    assert "at most 1920 client connections at a time instead of 10000" in caplog.text
    assert "raise its limit (ulimit -n, LimitNOFILE=)" in caplog.text


def test_enough_descriptors_change_nothing(monkeypatch, caplog):
    """Nothing is raised or said where there is room."""
    infinity = resource.RLIM_INFINITY
    assert _limit_is(monkeypatch, infinity, infinity) == []
    assert limits.affordable(GatewaySettings()) == GatewaySettings()
    assert caplog.text == ""
