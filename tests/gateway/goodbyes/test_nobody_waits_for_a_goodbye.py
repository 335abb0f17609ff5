"""TLS connections are closed without waiting for the peer's close alert, which may never come."""

import asyncio
import ssl
import types

import pytest

from headgate import engine_client, routing
from headgate.api.marks import Address
from headgate.flow.limits import Presence
from headgate.gateway import GatewaySettings
from headgate.gateway.connections import EndpointConnections
from headgate.gateway.upstream import UpstreamConnection
from headgate.loop_turns import LoopTurns
from headgate.quota.redis_access import RedisAccess
from headgate.quota.redis_transport import RedisTransport

pytestmark = pytest.mark.every_loop

LAST = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture
def trust(identity):
    """Of who connects."""
    return ssl.create_default_context(cafile=str(identity.ca))


def to_an_endpoint(port, trust):
    """As the data path connects."""
    endpoint = routing.Endpoint("default/pod", "127.0.0.1", port)
    turns = LoopTurns(asyncio.get_running_loop())
    return EndpointConnections(endpoint, trust, GatewaySettings(), turns).connect()


def to_a_page(port, trust):
    """As it connects to look at an engine."""
    return engine_client.Client("127.0.0.1", port, trust, "").get("/metrics", "text/plain", 1000, 60.0)


WAYS = {"endpoint": (to_an_endpoint, UpstreamConnection), "page": (to_a_page, engine_client._Connection)}


@pytest.mark.parametrize(("way", "protocol"), WAYS.values(), ids=WAYS)
async def test_a_connection_that_is_given_up_as_it_is_made(mute, trust, monkeypatch, way, protocol):
    """In the very turn in which its handshake is done, when nobody has it yet."""
    made = protocol.connection_made

    def made_too_late(self, transport):
        made(self, transport)
        connecting.cancel()

    monkeypatch.setattr(protocol, "connection_made", made_too_late)
    connecting = asyncio.ensure_future(way(mute.port, trust))
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await mute.hears_the_end()


@pytest.mark.parametrize(
    "make",
    [
        lambda: UpstreamConnection(types.SimpleNamespace()),
        lambda: engine_client._Connection(types.SimpleNamespace(), engine_client.LargeResponses()),
    ],
    ids=["of requests", "of pages"],
)
def test_a_connection_that_was_given_up_before(make):
    """The loop may make it all the same."""
    ended = []
    connection = make()
    connection.abort()
    connection.connection_made(types.SimpleNamespace(abort=lambda: ended.append("aborted")))
    assert ended == ["aborted"]


async def test_the_last_answer_of_an_endpoint(mute, identity, start_gateway):
    """It said that it closes the connection, and may be gone before it does."""
    mute.answer = LAST
    gateway = await start_gateway()
    gateway.serve([mute], tls=routing.Tls(identity.ca.read_text(), "", True))
    assert (await gateway.ask()).body == b"ok"
    await mute.hears_the_end()


async def test_the_last_page_of_an_engine(mute, trust):
    """The same for what is read of it."""
    mute.answer = LAST
    assert await to_a_page(mute.port, trust) == (200, b"ok")
    await mute.hears_the_end()


async def test_a_redis_that_is_asked_no_more(mute, identity):
    """Its connection ends at once, also if who asks is cancelled again and again."""
    access = RedisAccess(tls=True, ca_file=str(identity.ca))
    transport = RedisTransport(Address("127.0.0.1", mute.port), access)
    asking = asyncio.ensure_future(transport.exchange([], Presence(turn=1, held=0, weight=0.0)))
    await mute.was_asked.wait()
    while not asking.done():  # the library may swallow one, if it comes as something ends
        asking.cancel()
        await asyncio.wait({asking}, timeout=0.05)
    assert asking.cancelled()
    await mute.hears_the_end()
    await transport.close()
