"""The client gets the endpoint's status, headers and bytes, in whatever pieces they arrive."""

import asyncio

import pytest

pytestmark = [pytest.mark.every_loop, pytest.mark.usefixtures("endless_turns")]

LENGTH = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Two: 1\r\nX-Two: 2\r\n"
    b"Content-Length: 12\r\n\r\nHello, world"
)
CHUNKED = (
    b"HTTP/1.1 201 Made\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"7\r\nHello, \r\n5;x=y\r\nworld\r\n0\r\nx-trailer: t\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH


@pytest.mark.parametrize("answer", [LENGTH, CHUNKED, INTERIM], ids=["length", "chunked", "interim"])
async def test_every_cut_in_two_is_delivered_intact(gateway, endpoint, answer):
    """Cut in two at any byte, an answer is the same, and both connections are kept."""
    client = await gateway.connect()
    for at in range(1, len(answer)):
        client.post()
        call = await endpoint.call()
        exchange = next(iter(gateway.shell.clients.all))._exchange
        # Given to the protocol as its transport would give it, so that the cut is where it should be.
        exchange._upstream.data_received(answer[:at])
        if at < len(answer):
            gateway.shell.services.loop.call_soon(_feed, exchange, answer[at:])
        response = await (client.head() if answer is CHUNKED else client.response())
        if answer is CHUNKED:
            body = answer.partition(b"\r\n\r\n")[2]
            assert await client.reader.readexactly(len(body)) == body
            assert response.status == 201
        else:
            assert (response.status, response.body) == (200, b"Hello, world")
            assert [v for k, v in response.headers if k == "x-two"] == ["1", "2"]
        assert not any(name == "link" for name, _ in response.headers)
        assert call.transport is endpoint.calls[0].transport
    assert gateway.settled == len(answer) - 1


def _feed(exchange, data):
    exchange._upstream.data_received(data)


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
async def test_large_answers(gateway, endpoint, size):
    """Answers of any size come through."""
    body = bytes(range(256)) * (size // 256 + 1)
    endpoint.behave = lambda call: call.answer(body[:size])
    assert (await gateway.ask()).body == body[:size]


async def test_answer_without_a_length_ends_with_the_connection(gateway, endpoint):
    """It is delivered until the endpoint closes, and then the client's connection closes too."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
    response = await client.head()
    assert response.header("connection") == "close"
    assert await client.reader.readexactly(4) == b"half"
    call.write(b" done")
    call.close()
    assert await client.rest() == b" done"
    assert gateway.metric("headgate_gateway_requests_total", code="200") == 1


async def test_cut_off_answer_without_a_length(gateway, endpoint):
    """A reset is no end: the client's connection breaks as well."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
    await client.head()
    await client.reader.readexactly(4)
    call.reset()
    with pytest.raises(ConnectionResetError):
        await client.reader.read()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_chunked_answer_for_a_client_of_either_version(gateway, endpoint, version):
    """HTTP/1.0 knows no chunks: there the bytes alone are sent, until the connection closes."""
    client = await gateway.connect()
    client.send(
        b'POST /score HTTP/%b\r\nhost: g\r\ncontent-length: 13\r\n\r\n{"model":"m"}' % version.encode()
    )
    call = await endpoint.call()
    for at in range(0, len(CHUNKED), 7):
        call.write(CHUNKED[at : at + 7])
        await asyncio.sleep(0)
    head = await client.head()
    if version == "1.0":
        assert head.header("transfer-encoding") is None
        assert head.header("connection") == "close"
        assert await client.rest() == b"Hello, world"
    else:
        assert head.header("transfer-encoding") == "chunked"


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_statuses_without_a_body(gateway, endpoint, status):
    """They have none whatever their headers say, and the connection goes on."""
    client = await gateway.connect()
    for fields in ("", "transfer-encoding: chunked\r\n"):
        client.post()
        (await endpoint.call()).write(f"HTTP/1.1 {status}\r\n{fields}\r\n".encode())
        response = await client.response()
        assert response.header("transfer-encoding") is None
    client.post()
    (await endpoint.call()).answer()
    assert (await client.response()).status == 200
    assert len(endpoint.connections) == 1


async def test_headers_of_the_endpoints_connection_stay_behind(gateway, endpoint):
    """Hop-by-hop headers of an answer are dropped, also those that its `connection` names, and `alt-svc`."""
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).answer(
        **{
            "X-Hop": "1",
            "Connection": "keep-alive, X-Hop, Content-Length",
            "Keep-Alive": "timeout=5",
            "Upgrade": "h2c",
            "Alt-Svc": 'h3=":443"',
            "X-Kept": "2",
        }
    )
    response = await client.response()
    assert [name for name, _ in response.headers] == ["x-kept", "content-length", "x-request-id"]


async def test_endpoint_that_closes_does_not_close_the_client(gateway, endpoint):
    """`connection: close` from an endpoint ends that connection alone."""
    client = await gateway.connect()
    for _ in range(2):
        client.post()
        (await endpoint.call()).answer(Connection="close")
        assert (await client.response()).header("connection") is None
    assert len(endpoint.connections) == 2


async def test_client_that_wants_to_close(gateway, endpoint):
    """`connection: close` from a client closes after the answer, and the endpoint's connection is kept."""
    client = await gateway.connect()
    client.post(Connection="close")
    (await endpoint.call()).answer()
    assert (await client.response()).header("connection") == "close"
    assert await client.is_closed()
    assert next(iter(gateway.shell.statistics()["connections"].values())) == {"open": 1, "idle": 1}
