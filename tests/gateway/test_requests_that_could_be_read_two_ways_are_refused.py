"""What two servers might read differently never reaches the second one."""

import pytest

AMBIGUOUS = {
    "length and coding": b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": b"content-length: 2\r\ncontent-length: 3\r\n\r\nabc",
    "the same length twice": b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    "list of lengths": b"content-length: 2, 2\r\n\r\n{}",
    "signed length": b"content-length: +2\r\n\r\n{}",
    "no length": b"content-length: \r\n\r\n",
    "endless length": b"content-length: 99999999999999999999999\r\n\r\n",
    "space before colon": b"content-length : 2\r\n\r\n{}",
    "folded header": b"x-a: b\r\n c: d\r\n\r\n",
    "bare LF": b"x-a: b\ncontent-length: 2\r\n\r\n{}",
    "bare CR": b"x-a: b\rcontent-length: 2\r\n\r\n{}",
    "NUL": b"x-a: \0\r\n\r\n",
    "coding not last": b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "coding twice": b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "chunk size": b"transfer-encoding: chunked\r\n\r\n-1\r\n",
    "chunk size overflow": b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "chunk ended by LF": b"transfer-encoding: chunked\r\n\r\n2\n{}\n0\n\n",
    "chunk longer than it says": b"transfer-encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("fields", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
async def test_ambiguous_framing(gateway, endpoint, fields):
    """A message whose end is in doubt is refused, and nothing after it is believed."""
    client = await gateway.connect()
    client.send(
        b"POST /v1/completions HTTP/1.1\r\nhost: g\r\n" + fields + b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n"
    )
    response = await client.response()
    assert response.status == 400
    assert response.json["error"]["code"] == "invalid_http"
    assert await client.is_closed()
    assert endpoint.connections == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"hello\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET /healthz HTTP/2.0\r\n\r\n", 505),
        (b"GET /healthz HTTP/0.9\r\n\r\n", 505),
        (b"GET /healthz\r\n\r\n", 505),
        (b"POST /v1 HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST /v1 HTTP/1.1\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
        (b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", 405),
    ],
)
async def test_other_protocols(gateway, sent, status):
    """What is no HTTP/1.1 request, or asks for a tunnel, gets one answer and the end of the connection."""
    client = await gateway.connect()
    client.send(sent)
    assert (await client.response()).status == status
    assert await client.is_closed()


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
