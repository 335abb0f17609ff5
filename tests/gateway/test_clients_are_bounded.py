"""Limits on the sizes, counts and times of what a client sends. Each error names its limit."""

import asyncio

import pytest

pytestmark = pytest.mark.every_loop

HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\n"


async def _refused(client) -> tuple[int, str]:
    response = await client.response()
    assert response.header("connection") == "close"
    assert await client.is_closed()
    return response.status, response.json["error"]["code"]


@pytest.mark.parametrize("is_complete", [True, False])
async def test_long_head(start_gateway, endpoint, is_complete):
    """A head past the limit is refused with 431, whether or not its end came with it."""
    gateway = await start_gateway(endpoint, settings={"clients_max_head_bytes": 4096})
    client = await gateway.connect()
    client.send(HEAD + b"x-a: " + b"a" * 5000 + (b"\r\ncontent-length: 0\r\n\r\n" if is_complete else b""))
    assert await _refused(client) == (431, "head_too_large")
    assert gateway.metric("headgate_gateway_rejected_total", reason="head_too_large") == 1


async def test_long_head_behind_another_request(start_gateway, endpoint, request_bytes):
    """The limit holds for a head that comes in one piece with the request before it."""
    gateway = await start_gateway(endpoint, settings={"clients_max_head_bytes": 4096})
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    client.send(request_bytes() + HEAD + b"x-a: " + b"a" * 5000 + b"\r\ncontent-length: 0\r\n\r\n")
    assert (await client.response()).status == 200
    assert await _refused(client) == (431, "head_too_large")


async def test_head_at_the_limit_with_a_large_body(start_gateway, endpoint, request_bytes):
    """The body does not count as head, even if both come in one piece."""
    gateway = await start_gateway(endpoint, settings={"clients_max_head_bytes": 4096})
    endpoint.behave = lambda call: call.answer(b"%d" % len(call.body))
    body = b'{"model":"m","prompt":"%b"}' % (b"x" * 100_000)
    client = await gateway.connect()
    client.post(body, X_A="a" * 3900)
    assert (await client.response()).body == b"%d" % len(body)


async def test_many_headers(start_gateway, endpoint):
    """More headers than the limit are refused with 431."""
    gateway = await start_gateway(endpoint, settings={"clients_max_headers": 20})
    client = await gateway.connect()
    client.send(HEAD + b"a: b\r\n" * 20 + b"content-length: 0\r\n\r\n")
    assert await _refused(client) == (431, "head_too_large")


async def test_long_trailer(start_gateway, endpoint):
    """Trailers are bounded like heads: a chunked body cannot smuggle in what has no end."""
    gateway = await start_gateway(endpoint, settings={"clients_max_head_bytes": 4096})
    client = await gateway.connect()
    client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
    await asyncio.sleep(0.02)
    client.send(b"x-a: " + b"a" * 5000)
    assert await _refused(client) == (431, "trailer_too_large")


async def test_long_body_by_its_length(start_gateway, endpoint):
    """A declared length past the limit is refused with 413 before the body is read, or asked for."""
    gateway = await start_gateway(endpoint, settings={"clients_max_body_bytes": 1000})
    client = await gateway.connect()
    client.send(HEAD + b"expect: 100-continue\r\ncontent-length: 1001\r\n\r\n")
    assert await _refused(client) == (413, "body_too_large")


async def test_long_body_by_its_chunks(start_gateway, endpoint):
    """A chunked body is refused with 413 once it has grown past the limit."""
    gateway = await start_gateway(endpoint, settings={"clients_max_body_bytes": 1000})
    client = await gateway.connect()
    client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n" + (b"64\r\n" + b"x" * 100 + b"\r\n") * 11)
    assert await _refused(client) == (413, "body_too_large")


async def test_body_in_tiny_chunks(gateway, endpoint, eventually):
    """It arrives intact, and costs no object for each chunk while it is collected."""
    body = b'{"model":"m","prompt":"%b"}' % (b"xyz" * 20_000)
    chunks = [b"2\r\n%b\r\n" % body[at : at + 2] for at in range(0, len(body) - 1, 2)]
    client = await gateway.connect()
    client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"".join(chunks))
    connection = await gateway.taken()
    await eventually(lambda: connection._reader.body_bytes == 2 * len(chunks))
    assert len(connection._reader._body._pieces) <= 1025
    client.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) % 2, body[-1:]) if len(body) % 2 else b"0\r\n\r\n")
    assert (await endpoint.call()).body == body
    endpoint.calls[0].answer()


async def test_rejected_client_that_goes_on_sending_can_read_why(start_gateway, endpoint):
    """The rest of a refused body is taken in for a while, since a reset might overtake the answer."""
    gateway = await start_gateway(endpoint, settings={"clients_max_body_bytes": 1000})
    client = await gateway.connect()
    client.send(HEAD + b"content-length: 3000000\r\n\r\n")
    for _ in range(30):
        client.send(b"x" * 100_000)
        await client.writer.drain()
    assert await _refused(client) == (413, "body_too_large")
    gateway.shell.services.now = lambda: asyncio.get_running_loop().time() + 10
    connection = await gateway.taken()
    connection.sweep(gateway.shell.now())
    assert connection._transport.is_closing()


@pytest.mark.parametrize(
    "sent", [b"\r\n", b"POST /v1", HEAD, HEAD + b"content-length: 9\r\n\r\n{", b"POST / HTTP/1.1\r\nh: 1\r\n"]
)
async def test_slow_request(gateway, sent, eventually):
    """A request that is not complete in time is refused with 408, wherever it stopped."""
    client = await gateway.connect()
    client.send(sent)
    connection = await gateway.taken()
    await eventually(lambda: connection._reader.is_amid_request)
    connection.sweep(gateway.shell.now() + 29)
    connection.sweep(gateway.shell.now() + 31)
    assert await _refused(client) == (408, "request_timeout")


async def test_slow_second_request(gateway, endpoint, request_bytes, eventually):
    """The time for a request runs from its first byte, also on a connection that was used before."""
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    client.send(request_bytes() + HEAD)
    await client.response()
    next(iter(gateway.shell.clients.all)).sweep(gateway.shell.now() + 31)
    assert await _refused(client) == (408, "request_timeout")


async def test_long_body_earns_its_time(start_gateway, eventually):
    """A body that comes at the least rate or faster is not cut off; one that stops is."""
    gateway = await start_gateway(settings={"clients_min_body_bytes_per_s": 1000})
    client = await gateway.connect()
    client.send(HEAD + b"content-length: 20000\r\n\r\n" + b"x" * 10_000)
    connection = await gateway.taken()
    await eventually(lambda: connection._reader.body_bytes == 10_000)
    connection.sweep(gateway.shell.now() + 39)
    assert not connection._transport.is_closing()
    connection.sweep(gateway.shell.now() + 41)
    assert await _refused(client) == (408, "request_timeout")


async def test_extensions_between_bytes_of_a_body(gateway):
    """They are bounded by the length of the body: other bytes of it between them earn them little."""
    client = await gateway.connect()
    client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    for _ in range(20):
        client.send(b"1;%b\r\nx\r\n" % (b"a" * 1000))
    assert await _refused(client) == (400, "framing_too_large")
    assert gateway.metric("headgate_gateway_rejected_total", reason="framing_too_large") == 1


async def test_extensions_of_long_chunks(gateway, endpoint):
    """Short ones on chunks of an ordinary size are no reason to reject a request, however many they are."""
    endpoint.behave = lambda call: call.answer(b"%d" % len(call.body))
    body = b'{"model":"m","prompt":"%b"}' % (b"x" * 1500)
    chunks = [body[at : at + 64] for at in range(0, len(body), 64)]
    client = await gateway.connect()
    framed = b"".join(b"%08x;signature=%b\r\n%b\r\n" % (len(each), b"a" * 640, each) for each in chunks)
    client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n")
    assert (await client.response()).body == b"%d" % len(body)


async def test_extensions_of_chunks_earn_no_time(gateway, eventually):
    """Bytes that are no body keep a request alive for no longer, however many they are."""
    client = await gateway.connect()
    client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n" + (b"1;%b\r\nx\r\n" % (b"a" * 700)) * 20)
    connection = await gateway.taken()
    await eventually(lambda: connection._reader.body_bytes == 20)
    connection.sweep(gateway.shell.now() + 31)
    assert await _refused(client) == (408, "request_timeout")


@pytest.mark.parametrize(
    ("sent", "remedy"),
    [
        (HEAD + b"x-a: " + b"a" * 5000 + b"\r\n\r\n", "raise clients.max_head_bytes"),
        (HEAD + b"a: b\r\n" * 20 + b"\r\n", "raise clients.max_headers"),
        (HEAD + b"content-length: 3000\r\n\r\n", "raise clients.max_body_bytes"),
        (HEAD + b"expect: more\r\n\r\n", "only 100-continue is"),
        (b"POST / HTTP/1.1\r\n\r\n", "HTTP/1.1 needs one"),
        ((HEAD + b"content-length: 0\r\n\r\n") * 9, "wait for responses"),
    ],
)
async def test_refusals_name_the_remedy(start_gateway, endpoint, sent, remedy, request_bytes, eventually):
    """Who meets a limit is told what to do, and each is counted under the code that the client got."""
    limits = {
        "clients_max_head_bytes": 4096,
        "clients_max_headers": 20,
        "clients_max_body_bytes": 2048,
        "clients_max_pipelined": 4,
    }
    gateway = await start_gateway(endpoint, settings=limits)
    client = await gateway.connect()
    if sent.count(b"POST") > 1:  # pipelined, they wait behind one that is running
        client.send(request_bytes())
        await endpoint.call()
        client.send(sent)
        (connection,) = gateway.shell.clients.all
        await eventually(lambda: connection.waiting == 4)
        endpoint.behave = lambda call: call.answer()
        endpoint.calls[0].answer()
        responses = [await client.response() for _ in range(6)]
    else:
        client.send(sent)
        responses = [await client.response()]
    error = responses[-1].json["error"]
    assert remedy in error["message"]
    assert await client.is_closed()
    assert gateway.metric("headgate_gateway_rejected_total", reason=error["code"]) == 1


async def test_idle_connection_is_closed(gateway, eventually):
    """A connection without requests is closed after a while, without an answer that nobody asked for."""
    client = await gateway.connect()
    connection = await gateway.taken()
    connection.sweep(gateway.shell.now() + 74)
    connection.sweep(gateway.shell.now() + 76)
    assert await client.is_closed()


async def test_silent_endpoint_is_given_up(gateway, endpoint):
    """An endpoint that says nothing for too long has failed: 504, and the connection to it is ended."""
    client = await gateway.connect()
    client.post()
    await endpoint.call()
    next(iter(gateway.shell.clients.all)).sweep(gateway.shell.now() + 601)
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (504, "upstream_timeout")
    await endpoint.connections[0].lost


async def test_silent_stream_is_given_up(gateway, endpoint):
    """Amid an answer, silence that lasts too long ends the client's connection."""
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234")
    await client.head()
    next(iter(gateway.shell.clients.all)).sweep(gateway.shell.now() + 601)
    assert await client.rest() == b"01234"
    assert gateway.settled == 1
