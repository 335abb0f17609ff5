"""A client that offers HTTP/2 or WebSocket is served over HTTP/1.1."""

import pytest

pytestmark = pytest.mark.every_loop


async def test_offer_of_another_protocol_is_ignored(gateway, endpoint):
    """A request that offers to speak h2c or WebSocket is served as if it had not, with its body."""
    body = b'{"model":"m"}'
    offer = (
        b"POST /v1/completions HTTP/1.1\r\nhost: g\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\ncontent-length: 13\r\n\r\n" + body
    )
    client = await gateway.connect()
    client.send(
        offer
        + offer
        + b"GET /healthz HTTP/1.1\r\nhost: g\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
    )
    for _ in range(2):
        call = await endpoint.call()
        assert call.body == body
        assert not {"upgrade", "connection", "http2-settings"} & {name for name, _ in call.headers}
        call.answer()
        assert (await client.response()).status == 200
    assert (await client.response()).status == 200
