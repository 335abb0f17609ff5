"""`Expect: 100-continue`: the gateway says immediately whether a client may send its body."""

import pytest

pytestmark = pytest.mark.every_loop

ASKING = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\n"
BODY = b'{"model":"m"}'


@pytest.mark.parametrize("expect", [b"100-continue", b"100-Continue", b"100-continue "])
@pytest.mark.parametrize(
    "framed",
    [
        (b"content-length: 13\r\n", BODY),
        (b"transfer-encoding: chunked\r\n", b"d\r\n" + BODY + b"\r\n0\r\n\r\n"),
    ],
)
async def test_client_is_told_to_go_on(gateway, endpoint, expect, framed):
    """In any spelling, for any framing; the endpoint is not asked again."""
    client = await gateway.connect()
    client.send(ASKING.replace(b"100-continue", expect) + framed[0] + b"\r\n")
    assert (await client.head()).status == 100
    client.send(framed[1])
    call = await endpoint.call()
    assert call.header("expect") is None
    call.answer()
    assert (await client.response()).status == 200


async def test_told_once_where_another_protocol_is_offered(gateway, endpoint):
    """The head of such a request is read twice; the client hears of it once."""
    client = await gateway.connect()
    client.send(ASKING + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 13\r\n\r\n")
    assert (await client.head()).status == 100
    client.send(BODY)
    (await endpoint.call()).answer()
    assert (await client.response()).status == 200


@pytest.mark.parametrize(
    "sent",
    [
        ASKING + b"content-length: 0\r\n\r\n",
        ASKING.replace(b"HTTP/1.1", b"HTTP/1.0") + b"content-length: 13\r\n\r\n" + BODY,
        ASKING.replace(b"POST /v1/completions", b"GET /healthz") + b"\r\n",
    ],
)
async def test_nothing_to_ask_for(gateway, endpoint, sent):
    """Without a body, and in HTTP/1.0, where nobody would understand it, there is no interim answer."""
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    client.send(sent)
    assert (await client.response()).status in (200, 400)


async def test_every_request_of_a_pipeline_is_told(gateway, endpoint):
    """One that asks while others are answered is told when they are."""
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    for _ in range(3):
        client.send(ASKING + b"content-length: 13\r\n\r\n")
        assert (await client.head()).status == 100
        client.send(BODY)
        assert (await client.response()).status == 200
    client.send(b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n" + ASKING + b"content-length: 13\r\n\r\n")
    assert (await client.response()).status == 200
    assert (await client.head()).status == 100


async def test_other_expectations_cannot_be_met(gateway, endpoint):
    """417, and no endpoint is asked."""
    client = await gateway.connect()
    client.send(ASKING.replace(b"100-continue", b"coffee") + b"content-length: 13\r\n\r\n")
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (417, "unknown_expectation")
    assert await client.is_closed()
    assert endpoint.calls == []
