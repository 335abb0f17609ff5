"""How many connections clients may have, and what those beyond that are told."""

import asyncio
import logging
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway import GatewaySettings, limits, proxy

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
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 2})
    clients = [await gateway.connect() for _ in range(2)]
    await eventually(lambda: len(gateway.proxy.clients) == 2)
    assert await _turned_away(await gateway.connect()) == "too_many_clients"
    assert gateway.metric("headgate_gateway_rejected_total", reason="too_many_clients") == 1
    clients[0].post()
    assert (await clients[0].response()).status == 200
    clients[1].close()
    await eventually(lambda: len(gateway.proxy.clients) == 1)
    assert (await gateway.ask()).status == 200


async def test_clients_of_one_address(start_gateway, endpoint, eventually):
    """With a limit for each address, one client cannot take all of the room."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings={"clients_max_connections_per_address": 2})
    clients = [await gateway.connect() for _ in range(2)]
    await eventually(lambda: len(gateway.proxy.clients) == 2)
    assert await _turned_away(await gateway.connect()) == "too_many_clients_of_address"
    for client in clients:
        client.close()
    await eventually(lambda: not gateway.proxy.clients)
    assert (await gateway.ask()).status == 200
    await eventually(lambda: gateway.proxy.client_count.statistics() == {"clients": 0, "addresses": 0})


async def test_trusted_proxies_are_not_one_client(start_gateway, endpoint, eventually):
    """A load balancer has the connections of all clients behind it: the limit of an address is not for it."""
    limits = {"clients_max_connections_per_address": 1, "clients_trusted_networks": ("127.0.0.0/8",)}
    gateway = await start_gateway(endpoint, settings=limits)
    for _ in range(3):
        await gateway.connect()
    await eventually(lambda: len(gateway.proxy.clients) == 3)
    assert gateway.proxy.client_count.statistics() == {"clients": 3, "addresses": 0}


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
    monkeypatch.setattr(proxy, "MAX_TURNED_AWAY", 3)
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 0})
    clients = [await gateway.connect() for _ in range(20)]
    for client in clients:
        assert (await client.response()).status == 503
    assert len(gateway.proxy._turned_away) == 3
    later = asyncio.get_running_loop().time() + 3
    gateway.proxy.now = lambda: later
    gateway.proxy._sweep()
    await eventually(lambda: not gateway.proxy._turned_away)


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
    assert limits.counted_as(address) == counted_as


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
