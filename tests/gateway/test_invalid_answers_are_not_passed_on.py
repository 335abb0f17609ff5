"""An endpoint that does not speak HTTP cannot confuse a client: 502, or the connection ends."""

import asyncio
import random

import pytest

pytestmark = pytest.mark.every_loop

HEAD = b"HTTP/1.1 200 OK\r\n"
INVALID = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "empty lines": b"\r\n\r\n" * 10000,
    "length and coding": HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
    "two lengths": HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n",
    "coding unknown": HEAD + b"transfer-encoding: gzip\r\n\r\nabc",
    "coding besides chunked": HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "bare LF": HEAD + b"content-length: 3\nx: y\r\n\r\nabc",
    "header split": HEAD + b"x: y\rset-cookie: z\r\ncontent-length: 0\r\n\r\n",
    "folded header": HEAD + b"x: y\r\n z\r\ncontent-length: 0\r\n\r\n",
    "status 99": b"HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n",
    "status 600": b"HTTP/1.1 600 OK\r\ncontent-length: 0\r\n\r\n",
    "status 999": b"HTTP/1.1 999 OK\r\ncontent-length: 0\r\n\r\n",
    "status 1000": b"HTTP/1.1 1000 OK\r\ncontent-length: 0\r\n\r\n",
    "switch of protocols": b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    "endless head": HEAD + b"x: " + b"y" * 70_000,
    "long head": HEAD + b"x: " + b"y" * 70_000 + b"\r\ncontent-length: 0\r\n\r\n",
}


@pytest.mark.parametrize("answer", INVALID.values(), ids=INVALID.keys())
async def test_invalid_head(gateway, endpoint, answer):
    """The client gets a 502 of the gateway's own, and the endpoint's connection is ended."""
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).write(answer)
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_invalid")
    await endpoint.connections[0].lost
    client.post()
    (await endpoint.call()).answer(b"next")
    assert (await client.response()).body == b"next"
    assert gateway.settled == 2


BODIES = [
    (b"transfer-encoding: chunked", b"2\r\nab\r\n", b"xyz\r\n"),
    (b"transfer-encoding: chunked", b"2\r\nab\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    (b"content-length: 2", b"ab", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
]


@pytest.mark.parametrize(("head", "body", "more"), BODIES)
async def test_invalid_body(gateway, endpoint, head, body, more):
    """An answer that proves to be none before any of it was passed on is a 502."""
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).write(HEAD + head + b"\r\n\r\n" + body + more)
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_invalid")
    await endpoint.connections[0].lost
    assert gateway.settled == 1


@pytest.mark.parametrize(("head", "body", "more"), BODIES)
async def test_invalid_body_behind_a_valid_head(gateway, endpoint, head, body, more):
    """Bytes that belong to no body, or to a second answer, end the connection instead of being passed on."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.write(HEAD + head + b"\r\n\r\n")
    assert (await client.head()).status == 200
    call.write(body + more)
    received = await client.rest()
    assert b"xyz" not in received
    assert b"HTTP/1.1" not in received
    assert gateway.settled == 1


async def test_bytes_without_a_request(gateway, endpoint, eventually):
    """A connection on which an endpoint speaks out of turn is not used again."""
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    client.post()
    await client.response()
    endpoint.calls[0].answer(b"poison")
    await eventually(lambda: endpoint.connections[0].lost.done())
    client.post()
    assert (await client.response()).body == b"ok"
    assert len(endpoint.connections) == 2


async def test_head_of_a_hundred_megabytes(gateway, endpoint):
    """The endpoint's connection is ended long before: the gateway keeps no more of a head than its limit."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.write(HEAD)
    ended, sent = endpoint.connections[0].lost, 0
    while not ended.done() and sent < 100_000_000:
        if call.transport.get_write_buffer_size() < 1_000_000:
            call.write(b"x-a: " + b"y" * 60_000 + b"\r\n")
            sent += 60_000
        await asyncio.sleep(0)
    assert sent < 50_000_000
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_invalid")


VALID = (
    HEAD + b"content-length: 5\r\nx: y\r\n\r\nhello",
    HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"connection: close\r\n\r\nhello",
    b"HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
)


@pytest.mark.parametrize("seed", range(3))
async def test_damaged_answers(start_gateway, start_endpoint, seed):
    """Whatever bytes an endpoint sends before it hangs up, the client is told, and the books balance."""
    rng = random.Random(seed)

    def damage(call):
        answer = bytearray(rng.choice(VALID))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(answer))
            piece = rng.choice([b"", b"\r\n", b"\n", b":", b"\0", b"HTTP/1.1 ", bytes([rng.randrange(256)])])
            answer[at : at + rng.randint(0, 3)] = piece
        call.write(bytes(answer))
        call.close()

    gateway = await start_gateway(*[await start_endpoint(behave=damage) for _ in range(2)])
    for sent in range(1, 61):
        client = await gateway.connect()
        client.post(Connection="close")
        received = await client.rest()
        assert received.count(b"HTTP/1.1 ") <= 2
        assert received == b"" or received.startswith(b"HTTP/1.1 ")
        assert gateway.settled == sent
