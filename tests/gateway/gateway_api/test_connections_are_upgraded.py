"""WebSockets and other upgrades pass to Services."""

from __future__ import annotations

import asyncio
import json

import pytest

from headgate.auth import keys

UPGRADE = (
    b"GET /ws HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: x\r\n\r\n"
)
SWITCHING = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"sec-websocket-accept: y\r\n\r\n"
)


@pytest.fixture
async def echo(held_port):
    """Upgrades, and echoes what it gets."""

    heads: list[bytes] = []

    class Echo(asyncio.Protocol):
        lost = asyncio.Event()

        def connection_made(self, transport) -> None:
            self.transport = transport
            self.is_open = False

        def data_received(self, data: bytes) -> None:
            if not self.is_open:
                head, _, data = data.partition(b"\r\n\r\n")
                heads.append(head)
                self.is_open = True
                self.transport.write(SWITCHING)
            if data == b"bye":
                self.transport.close()
            elif data:
                self.transport.write(b"<" + data)

        def connection_lost(self, error) -> None:
            self.lost.set()

    Echo.port, Echo.heads = held_port(), heads
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", Echo.port, reuse_address=True)
    yield Echo
    server.close()


async def test_bytes_pass_both_ways_after_an_upgrade(front, echo, service, to):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", echo))
    client = await front.connect()
    client.send(UPGRADE)
    head = await client.head()
    assert head.status == 101
    assert head.header("connection") == "upgrade"
    assert head.header("sec-websocket-accept") == "y"
    for data in (b"\x81\x01a", b"GET / HTTP/1.1\r\n\r\n"):
        client.send(data)
        assert await client.reader.readexactly(len(data) + 1) == b"<" + data
    client.send(b"bye")
    assert await client.is_closed()
    [sent] = echo.heads
    assert b"\r\nconnection: upgrade\r\nupgrade: websocket" in sent
    assert b"sec-websocket-key: x" in sent


async def test_a_client_that_leaves_closes_the_tunnel(front, echo, service, to):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", echo))
    client = await front.connect()
    client.send(UPGRADE)
    await client.head()
    client.close()
    await echo.lost.wait()


async def test_a_refused_upgrade_is_an_ordinary_response(front, start_endpoint, service, to):
    endpoint = await start_endpoint()
    endpoint.behave = lambda call: (call.answer(b"no", "400 Bad Request"), call.close())
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(UPGRADE)
    response = await client.response()
    assert (response.status, response.body, response.header("connection")) == (400, b"no", "close")
    assert await client.is_closed()


async def test_an_upgrade_without_an_endpoint_gets_503(front, start_endpoint, service, to):
    endpoint = await start_endpoint()
    await endpoint.stop()
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(UPGRADE)
    assert (await client.response()).status == 503


async def test_an_offer_of_http2_is_ignored(front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n"
        b"http2-settings: x\r\n\r\n"
    )
    assert (await client.response()).body == b"ok"
    assert endpoint.calls[0].header("upgrade") is None


SMUGGLED = b"GET /admin HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 10.0.0.1\r\n\r\n"


async def test_no_second_request_passes_behind_a_refused_upgrade(front, start_endpoint, service, to):
    """No rule has matched it: an endpoint that ignores the upgrade would read it as a request."""
    endpoint = await start_endpoint(b"ok")
    rule = {"matches": [{"path": {"value": "/ws"}}], "backendRefs": [to("web")]}
    await front.route(rule, objects_=service("web", endpoint))
    for is_late in (False, True):
        client = await front.connect()
        client.send(UPGRADE if is_late else UPGRADE + SMUGGLED)
        response = await client.response()
        assert (response.status, response.body) == (200, b"ok")
        if is_late:
            client.send(SMUGGLED)
        assert await client.is_closed()
    assert [call.target for call in endpoint.calls] == ["/ws", "/ws"]


async def test_bytes_behind_an_upgrade_wait_for_it(front, echo, service, to):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", echo))
    client = await front.connect()
    client.send(UPGRADE + b"early")
    assert (await client.head()).status == 101
    assert await client.reader.readexactly(6) == b"<early"


@pytest.mark.parametrize("offer", [b"h2c, websocket", b"websocket, H2C", b"foo\r\nupgrade: h2c"])
async def test_http2_is_never_among_the_offers(front, echo, service, to, offer):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", echo))
    client = await front.connect()
    client.send(UPGRADE.replace(b"upgrade: websocket", b"upgrade: " + offer))
    assert (await client.head()).status == 101
    [sent] = echo.heads
    assert b"h2c" not in sent.lower()


async def test_a_response_that_breaks_off_instead_of_an_upgrade_is_reset(front, start_endpoint, service, to):
    endpoint = await start_endpoint()
    endpoint.behave = lambda call: (
        call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
        call.close(),
    )
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(UPGRADE)
    assert (await client.head()).status == 200
    with pytest.raises(ConnectionError):
        await client.reader.readexactly(9)


async def test_a_key_that_is_gone_ends_its_tunnels(start_front, echo, service, to, tmp_path):
    """As it ends sessions with models: a tunnel may be in use for days."""
    shown, key = keys.create("team-a", "")
    keys_file = tmp_path / "keys.json"
    keys_file.touch(0o600)
    keys_file.write_text(json.dumps([{"id": key.id, "tenant": "team-a", "sha256": key.sha256}]))
    front = await start_front(auth_keys_file=str(keys_file))
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", echo))
    client = await front.connect()
    client.send(UPGRADE.replace(b"\r\n\r\n", f"\r\nx-api-key: {shown}\r\n\r\n".encode()))
    assert (await client.head()).status == 101
    clients, now = front.gateway.shell.clients, front.gateway.shell.now
    clients.sweep(now())
    client.send(b"a")
    assert await client.reader.readexactly(2) == b"<a"
    keys_file.write_text("[]")
    front.gateway.shell.services.credentials.look()
    clients.sweep(now())
    assert await client.rest() == b""
    await asyncio.wait_for(echo.lost.wait(), 10)
