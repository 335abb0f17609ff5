"""`x-forwarded-*` and `forwarded` name the client; its own claims count only if it is trusted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane import trust
from headgate.gateway import GatewaySettings
from headgate.gateway.settings import conflicts

TRUSTED = {"clients_trusted_networks": ("127.0.0.0/8", "10.0.0.0/8", "::1")}
ABOUT = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded")


async def _told(gateway, endpoint, **headers: str) -> dict[str, str]:
    """The headers about the client that the endpoint gets."""
    client = await gateway.connect()
    client.post(**headers)
    call = await endpoint.call()
    call.answer()
    await client.response()
    assert len({name for name, _ in call.headers}) == len(call.headers)
    return {name: value for name, value in call.headers if name in ABOUT or name.startswith("x-head")}


async def test_claims_of_a_client_are_replaced(gateway, endpoint):
    """An address that a client makes up reaches no endpoint, in no spelling."""
    told = await _told(
        gateway,
        endpoint,
        X_Forwarded_For="10.0.0.9",
        X_Forwarded_Proto="https",
        X_Forwarded_Host="evil",
        Forwarded="for=10.0.0.9",
        X_Headgate_Explain="1",
    )
    assert told == {
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-proto": "http",
        "x-forwarded-host": "gateway",
        "forwarded": 'for=127.0.0.1;host="gateway";proto=http',
    }


async def test_claims_of_a_trusted_client_are_added_to(start_gateway, endpoint):
    """Behind a load balancer, the chain grows by its address; what it says of scheme and host stays."""
    gateway = await start_gateway(endpoint, settings=TRUSTED)
    told = await _told(
        gateway,
        endpoint,
        X_Forwarded_For="203.0.113.7, 10.0.0.1",
        X_Forwarded_Proto="https",
        X_Forwarded_Host="api.example.com",
        Forwarded="for=203.0.113.7;proto=https",
        X_Headgate_Team="1",
    )
    assert told == {
        "x-forwarded-for": "203.0.113.7, 10.0.0.1, 127.0.0.1",
        "x-forwarded-proto": "https",
        "x-forwarded-host": "api.example.com",
        "forwarded": 'for=203.0.113.7;proto=https, for=127.0.0.1;host="gateway";proto=http',
        "x-headgate-team": "1",
    }


async def test_half_a_story_is_not_made_up(start_gateway, endpoint):
    """A trusted client that uses one of the two ways only is passed on in that way only."""
    gateway = await start_gateway(endpoint, settings=TRUSTED)
    told = await _told(gateway, endpoint, X_Forwarded_For="203.0.113.7")
    assert told["x-forwarded-for"] == "203.0.113.7, 127.0.0.1"
    assert "forwarded" not in told
    told = await _told(gateway, endpoint, Forwarded="for=203.0.113.7")
    assert told["forwarded"].startswith("for=203.0.113.7, for=127.0.0.1")
    assert "x-forwarded-for" not in told
    assert (await _told(gateway, endpoint))["x-forwarded-for"] == "127.0.0.1"


async def test_hosts_may_change_from_request_to_request(gateway, endpoint):
    """What was made for one host is not told of another, on one connection."""
    client = await gateway.connect()
    for host in ("a.example", "b.example:8080", "a.example"):
        client.send(
            f'POST /score HTTP/1.1\r\nhost: {host}\r\ncontent-length: 13\r\n\r\n{{"model":"m"}}'.encode()
        )
        call = await endpoint.call()
        call.answer()
        assert call.header("host") == call.header("x-forwarded-host") == host
        assert f'host="{host}"' in call.header("forwarded")
        await client.response()


async def test_operators_see_the_client_behind_a_trusted_proxy(start_gateway, endpoint):
    """The access log and the list of requests in flight name who asked, not the load balancer."""
    gateway = await start_gateway(endpoint, settings=TRUSTED)
    client = await gateway.connect()
    client.post(X_Forwarded_For="198.51.100.1, 203.0.113.7, 10.0.0.1")
    call = await endpoint.call()
    (exchange,) = [client.exchange for client in gateway.shell.clients.all]
    assert exchange.request.client_address == "203.0.113.7"
    call.answer()
    await client.response()
    assert any("203.0.113.7" in line for line in gateway.log_lines())


@pytest.mark.parametrize(
    ("peer", "headers", "address"),
    [
        ("203.0.113.1", {"x-forwarded-for": "198.51.100.1"}, "203.0.113.1"),
        ("10.0.0.1", {}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "6.6.6.6, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "10.0.0.3, 10.0.0.2"}, "10.0.0.3"),
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1, evil, 10.0.0.2"}, "10.0.0.2"),
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1:1234"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "[2001:db8::1]:1234"}, "2001:db8::1"),
        ("10.0.0.1", {"x-forwarded-for": ", ,"}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": 'for="[2001:db8::1]:80";proto=https, FOR=10.0.0.2'}, "2001:db8::1"),
        ("10.0.0.1", {"forwarded": "for=_hidden"}, "10.0.0.1"),
        ("::ffff:10.0.0.1", {"x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        ("::1", {"x-forwarded-for": "fe80::1%eth0"}, "fe80::1"),
        ("", {"x-forwarded-for": "198.51.100.1"}, ""),
    ],
)
def test_address_of_a_client(peer, headers, address):
    """The last address in the chain that is not a trusted proxy's; what is before it may be made up."""
    given_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
    networks = trust.Networks(TRUSTED["clients_trusted_networks"])
    assert trust.Peer(peer, networks).client_address(given_headers) == address


@given(st.lists(st.binary(max_size=40).map(lambda value: value.translate(None, b"\0\r\n")), max_size=4))
def test_no_value_breaks_the_head(values):
    """Whatever trusted clients say, the lines that are made of it are whole lines."""
    peer = trust.Peer("10.0.0.1", trust.Networks(["10.0.0.0/8"]))
    for name in (b"x-forwarded-for", b"forwarded", b"x-forwarded-proto", b"x-forwarded-host"):
        headers = [(name, value) for value in values]
        opening = peer.opening(b"g", headers)
        assert opening.count(b"\r") == opening.count(b"\n") == opening.count(b"\r\n")
        assert all(b": " in line for line in opening.split(b"\r\n")[1:-1])
        assert peer.client_address(headers)


def test_networks_that_are_none_are_named():
    """All at once, each with what is wrong with it."""
    settings = GatewaySettings().replace(clients_trusted_networks=("10.0.0.1/8", "example.com", "::/0"))
    found = conflicts(settings)
    assert [name for name, _ in found] == ["clients.trusted_networks"] * 2
    assert "10.0.0.1/8 has host bits set" in found[0][1]
    assert "'example.com' does not appear to be" in found[1][1]
    assert "a network such as 10.0.0.0/8 or an address is needed" in found[1][1]
