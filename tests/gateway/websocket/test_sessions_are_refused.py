"""What opens no WebSocket is refused before anything reaches an endpoint."""

import asyncio
import json
import time

import pytest

from headgate.auth import keys
from headgate.auth.outcome import Identity
from headgate.gateway.websocket import opening
from headgate.http2 import frames, hpack
from headgate.http2.frames import PREFACE

PATH = "/v1/realtime?model=m"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


async def asked(gateway, data):
    client = await gateway.connect()
    client.send(data)
    response = await client.response()
    return response.status, response.json["error"]["code"]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"more": "content-length: 0\r\n"}, 400, "websocket_invalid"),
        ({"more": "transfer-encoding: chunked\r\n"}, 400, "websocket_invalid"),
        ({"key": "short"}, 400, "websocket_invalid"),
        ({"more": "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"}, 400, "websocket_invalid"),
        ({"more": "sec-websocket-version: 8\r\n"}, 426, "websocket_invalid"),
        ({"more": "origin: https://evil.example\r\n"}, 403, "origin_not_allowed"),
        ({"more": "origin: null\r\n"}, 403, "origin_not_allowed"),
        ({"more": "origin: http://gateway\r\norigin: http://evil\r\n"}, 403, "origin_not_allowed"),
        ({"path": "/v1/realtime"}, 400, "model_missing"),
        ({"path": "/v1/realtime?model="}, 400, "model_missing"),
        ({"path": "/v1/realtime?model=a&%6dodel=b"}, 400, "invalid_type"),
        ({"path": "/v1/realtime?" + "a=b&" * 100 + "model=m"}, 400, "too_many_parameters"),
        ({"path": "/v1/realtime?model=m" + "&a=b" * 64 + "&model=other"}, 400, "too_many_parameters"),
        ({"path": "/v1/realtime?model=" + "x" * 1025}, 400, "member_too_long"),
        ({"path": "/v1/realtime?model=%00%ff"}, 404, "model_not_found"),
        ({"path": "/v1/realtime/x?model=m"}, 404, "not_found"),
        ({"path": "/v1//realtime?model=m"}, 404, "not_found"),
    ],
)
async def test_bad_openings(start_gateway, sockets, opening, change, status, code):
    gateway = await start_gateway(sockets)
    assert await asked(gateway, opening(**change)) == (status, code)
    assert not sockets.peers


@pytest.mark.parametrize("size", [1, 5_000, 100_000])
async def test_data_before_the_response(start_gateway, sockets, opening, size):
    """Clients must wait for it. However much comes with the request, none of it is lost without a word."""
    gateway = await start_gateway(sockets)
    assert await asked(gateway, opening() + b"\x81" * size) == (400, "websocket_invalid")
    assert not sockets.peers


async def test_behind_a_request_that_runs(gateway, endpoint, request_bytes, opening):
    """The response to that comes first."""
    client = await gateway.connect()
    client.send(request_bytes() + opening())
    (await endpoint.call()).answer(b"first")
    assert (await client.response()).body == b"first"
    assert (await client.response()).json["error"]["code"] == "websocket_invalid"
    assert await client.is_closed()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
async def test_requests_without_one(gateway, method):
    """At a path that is for WebSockets only."""
    client = await gateway.connect()
    client.send(f"{method} {PATH} HTTP/1.1\r\nhost: g\r\ncontent-length: 0\r\n\r\n".encode())
    response = await client.response()
    assert response.status == (404 if method == "POST" else 426)
    if method == "GET":
        assert response.header("upgrade") == "websocket"
        assert response.json["error"]["code"] == "websocket_needed"


async def test_pages_of_allowed_origins_may(start_gateway, sockets, open_session):
    """Those of `cors.origins`, and of the gateway's own host."""
    settings = {"cors_origins": ("https://app.example.com",)}
    gateway = await start_gateway(sockets, settings=settings)
    await open_session(gateway, more="origin: https://app.example.com\r\n")
    await open_session(gateway, more="origin: http://gateway\r\n")


async def test_keys_are_needed(start_gateway, sockets, opening, open_session, tmp_path):
    """As for any request; a tenant opens only what it may use, and its key does not reach the endpoint."""
    shown, key = keys.create("team-a", "")
    keys_file, tenants_file = tmp_path / "keys.json", tmp_path / "tenants.yaml"
    keys_file.touch(0o600)
    keys_file.write_text(json.dumps([{"id": key.id, "tenant": "team-a", "sha256": key.sha256}]))
    tenants_file.write_text(
        "apiVersion: headgate.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-a}\nspec: {models: [m]}\n"
    )
    settings = {"auth_keys_file": str(keys_file), "auth_tenants_file": str(tenants_file)}
    gateway = await start_gateway(sockets, settings=settings)
    header = f"authorization: Bearer {shown}\r\n"
    assert await asked(gateway, opening()) == (401, "missing_credentials")
    wrong = shown[:-1] + ("y" if shown.endswith("x") else "x")
    unknown = opening(more=f"authorization: Bearer {wrong}\r\n")
    assert await asked(gateway, unknown) == (401, "invalid_api_key")
    other = opening("/v1/realtime?model=other", more=header)
    assert await asked(gateway, other) == (403, "model_not_allowed")
    await open_session(gateway, more=header)
    [peer] = sockets.peers
    assert shown.encode() not in peer.head
    offer = "sec-websocket-protocol: {}realtime, openai-insecure-api-key.{}\r\n"
    assert await asked(gateway, opening(more=offer.format("", shown[:-1]))) == (401, "invalid_api_key")
    await open_session(gateway, more=offer.format("openai-beta.realtime-v1, ", shown))
    assert b"sec-websocket-protocol: openai-beta.realtime-v1, realtime\r\n" in sockets.peers[1].head + b"\r\n"
    assert shown.encode() not in sockets.peers[1].head
    await open_session(gateway, more=f"sec-websocket-protocol: openai-insecure-api-key.{shown}\r\n")
    assert b"sec-websocket-protocol" not in sockets.peers[2].head


def test_many_offered_protocols_take_little_time():
    """Whoever has no key may send as many as fit into a head."""
    offered = b", ".join(b"openai-insecure-api-key.%d" % number for number in range(20_000))
    headers = [(b"sec-websocket-protocol", offered + b", realtime")]
    began = time.process_time()
    assert opening.key_in_protocols(headers) == b"0"
    assert headers == [(b"sec-websocket-protocol", b"realtime")]
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("change", ["revoked", "model", "expired"])
async def test_a_key_that_is_gone_ends_its_sessions(
    start_gateway, sockets, open_session, eventually, tmp_path, change
):
    """Revoked, expired, or of a tenant that may no longer use the model; other sessions go on."""
    made = [keys.create(tenant, "") for tenant in ("team-a", "team-b")]
    stored = [{"id": key.id, "tenant": key.tenant, "sha256": key.sha256} for _, key in made]
    keys_file, tenants_file = tmp_path / "keys.json", tmp_path / "tenants.yaml"
    keys_file.touch(0o600)
    keys_file.write_text(json.dumps(stored))
    tenant = (
        "apiVersion: headgate.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {}}}\nspec: {{models: [m]}}\n"
    )
    tenants = f"{tenant.format('team-a')}---\n{tenant.format('team-b')}"
    tenants_file.write_text(tenants)
    settings = {"auth_keys_file": str(keys_file), "auth_tenants_file": str(tenants_file)}
    gateway = await start_gateway(sockets, settings=settings)
    follows = asyncio.create_task(gateway.shell.services.credentials.run())
    clients = [await open_session(gateway, more=f"authorization: Bearer {shown}\r\n") for shown, _ in made]
    if change == "revoked":
        keys_file.write_text(json.dumps(stored[1:]))
    elif change == "model":
        tenants_file.write_text(tenants.replace("[m]", "[n]", 1))
    else:
        (connection,) = [
            each for each in gateway.shell.clients.all if each.exchange.request.tenant.name == "team-a"
        ]
        parsed = connection.exchange.request.parsed
        parsed.identity = Identity(grant=parsed.identity.grant, by=parsed.identity.by, ends_at=1.0)
        connection.sweep(gateway.shell.now())
    end = await clients[0].rest()
    assert end[2:4] == (1008).to_bytes(2, "big")
    clients[1].send(b"\x81\x01a")
    assert await clients[1].reader.readexactly(3) == b"\x81\x01a"
    follows.cancel()


@pytest.mark.parametrize("is_required", [True, False])
async def test_what_changes_while_it_opens_ends_it(
    start_gateway, start_sockets, opening, eventually, tmp_path, is_required
):
    """A key that is revoked, or needed, before the endpoint agrees: nobody keeps a session without one."""
    shown, key = keys.create("team-a", "")
    keys_file = tmp_path / "keys.json"
    keys_file.touch(0o600)
    keys_file.write_text(json.dumps([{"id": key.id, "tenant": "team-a", "sha256": key.sha256}]))
    sockets = await start_sockets(b"")
    needed = {"auth_keys_file": str(keys_file)}
    gateway = await start_gateway(sockets, settings=needed if is_required else None)
    client = await gateway.connect()
    client.send(opening(more=f"authorization: Bearer {shown}\r\n"))
    await eventually(lambda: sockets.peers and sockets.peers[0].head)
    if is_required:
        keys_file.write_text("[]")
        gateway.shell.services.credentials.look()
    else:
        gateway.shell.change(gateway.shell.settings.replace(**needed))
    sockets.peers[0].transport.write(SWITCHING)
    assert (await client.head()).status == 101
    (connection,) = gateway.shell.clients.all
    connection.sweep(gateway.shell.now())
    assert (await client.rest())[2:4] == (1008).to_bytes(2, "big")


async def test_paths_of_the_setting_may_have_them(start_gateway, sockets, open_session):
    """And no other paths of the allow list."""
    gateway = await start_gateway(sockets, settings={"clients_forwarded_paths": ("/team-a/*",)})
    await open_session(gateway, path="/team-a/speak?model=m")


async def test_endpoints_by_http2_have_none(start_gateway, sockets, opening):
    """WebSockets over HTTP/2 are not supported towards endpoints either."""
    gateway = await start_gateway(sockets, http2=True)
    assert await asked(gateway, opening()) == (501, "websocket_unsupported")


@pytest.mark.parametrize("protocol", [[(b":protocol", b"websocket")], []])
async def test_over_http2_they_are_refused(gateway, protocol):
    """Extended CONNECT (RFC 8441), which is not offered, and GET at the path: each with a response."""
    method = b"CONNECT" if protocol else b"GET"
    head = [
        (b":method", method),
        (b":scheme", b"http"),
        (b":path", PATH.encode()),
        (b":authority", b"gateway"),
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    flags = frames.END_HEADERS if protocol else frames.END_HEADERS | frames.END_STREAM
    writer.write(PREFACE + frames.settings([]) + frames.frame(1, 1, hpack.encode([*head, *protocol]), flags))
    data = b""
    async with asyncio.timeout(10):
        while b"over HTTP/1.1" not in data:
            data += await reader.read(65536)
    writer.close()
