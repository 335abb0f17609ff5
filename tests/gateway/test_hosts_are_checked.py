"""A gateway with configured host names rejects all others, such as those of a DNS rebinding page."""

import pytest

from headgate.gateway import GatewaySettings, hosts
from headgate.gateway.settings import conflicts
from headgate.requests.refusal import Refusal

NAMES = ("api.example.com", "*.models.example", "[::1]")


@pytest.mark.parametrize(
    "host",
    ["api.example.com", "API.Example.Com:8080", "a.models.example", "a.b.models.example:1", "[::1]:80"],
)
def test_own_names(host):
    """In any case, at any port; a pattern means every name below it."""
    assert hosts.Hosts(NAMES).refusal(host.encode()) is None


@pytest.mark.parametrize(
    "host",
    ["example.com", "api.example.com.evil", "models.example", "evilmodels.example", "[::2]", "", "::1"],
)
def test_other_names(host):
    """Neither a part of a name nor an ending of it is the name."""
    assert isinstance(hosts.Hosts(NAMES).refusal(host.encode()), Refusal)


def test_any_name_where_none_is_set():
    """By default a gateway goes by every name, but what is no name is refused all the same."""
    anything = hosts.Hosts(())
    assert anything.refusal(b"whatever_it-is.example:65535") is None
    assert anything.refusal(b"a b").code == "invalid_host"


async def test_request_for_another_host(start_gateway, endpoint):
    """It is told which setting to change, with 421, and no endpoint hears of it."""
    gateway = await start_gateway(endpoint, settings={"clients_allowed_hosts": NAMES})
    client = await gateway.connect()
    client.post()
    response = await client.response()
    error = response.json["error"]
    assert (response.status, error["code"]) == (421, "unknown_host")
    assert "'gateway'" in error["message"]
    assert "allowed_hosts" in error["message"]
    assert await client.is_closed()
    assert endpoint.connections == []
    assert gateway.metric("headgate_gateway_rejected_total", reason="unknown_host") == 1


async def test_every_request_of_a_connection_is_checked(start_gateway, endpoint):
    """A good host does not vouch for the next one."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings={"clients_allowed_hosts": NAMES})
    client = await gateway.connect()
    for host, status in (("api.example.com", 200), ("[::1]:8080", 200), ("api.example.com", 200), ("x", 421)):
        client.send(
            f'POST /score HTTP/1.1\r\nhost: {host}\r\ncontent-length: 13\r\n\r\n{{"model":"m"}}'.encode()
        )
        assert (await client.response()).status == status


async def test_probes_know_no_name(start_gateway, endpoint):
    """Health checks of load balancers name an address: they are answered, and nothing else is."""
    gateway = await start_gateway(endpoint, settings={"clients_allowed_hosts": NAMES})
    client = await gateway.connect()
    for target, status in (("/healthz", 200), ("/readyz", 200), ("/v1/models", 421)):
        client.send(f"GET {target} HTTP/1.1\r\nhost: 192.0.2.1:8080\r\n\r\n".encode())
        assert (await client.response()).status == status


def test_patterns_that_are_none_are_named():
    """A port or a scheme in a name would never fit: it is said at the start."""
    found = conflicts(
        GatewaySettings().replace(clients_allowed_hosts=("a.example:80", "http://a", "*", "a.example", "*.a"))
    )
    assert [problem.split(":")[0].strip("'") for _, problem in found] == ["a.example", "http", "*"]
    assert "a host without port is needed, such as api.example.com" in found[0][1]
