"""Pipelined requests wait for their turn; their number is bounded."""

import asyncio
import socket

import pytest

pytestmark = pytest.mark.every_loop


async def test_pipelined_requests_are_answered_in_order(gateway, endpoint, request_bytes):
    """Proxied, local and refused requests that come in one piece are answered one after the other."""
    client = await gateway.connect()
    client.send(
        request_bytes()
        + b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n"
        + request_bytes({"model": "nobody"})
        + request_bytes({"model": "m", "n": 2})
    )
    call = await endpoint.call()
    await asyncio.sleep(0.01)
    assert len(endpoint.calls) == 1
    call.answer(b"first")
    (await endpoint.call()).answer(b"last")
    responses = [await client.response() for _ in range(4)]
    assert [r.status for r in responses] == [200, 200, 404, 200]
    assert (responses[0].body, responses[3].body) == (b"first", b"last")


async def test_too_many_requests_ahead_end_the_connection(start_gateway, endpoint, request_bytes):
    """Those within the limit are answered; then the client is told why no more are."""
    gateway = await start_gateway(endpoint, settings={"clients_max_pipelined": 3})
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    client.send(request_bytes() * 8)
    assert [(await client.response()).status for _ in range(4)] == [200] * 4
    refused = await client.response()
    assert (refused.status, refused.json["error"]["code"]) == (400, "pipeline_too_long")
    assert await client.is_closed()


async def test_garbage_after_a_request_waits_for_its_answer(gateway, endpoint, request_bytes):
    """A running request is answered in full before the connection is ended for what came after it."""
    client = await gateway.connect()
    client.send(request_bytes() + b"\x00garbage\r\n\r\n")
    (await endpoint.call()).answer(b"intact")
    assert (await client.response()).body == b"intact"
    assert (await client.response()).status == 400
    assert await client.is_closed()


async def test_expectation_of_a_later_request_stays_out_of_a_running_answer(gateway, endpoint, request_bytes):
    """`100 Continue` is never written amid the bytes of the answer before it, but right behind them."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234")
    head = await client.head()
    assert head.status == 200
    client.send(b"POST /score HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 13\r\n\r\n")
    await asyncio.sleep(0.02)
    call.write(b"56789")
    assert await client.reader.readexactly(10) == b"0123456789"
    assert (await client.head()).status == 100
    client.send(b'{"model":"m"}')
    (await endpoint.call()).answer()
    assert (await client.response()).status == 200


async def test_client_that_leaves_with_requests_waiting(gateway, endpoint, request_bytes, eventually):
    """None of the requests that wait behind a running one is started for a client that is gone."""
    client = await gateway.connect()
    client.send(request_bytes() * 4)
    await endpoint.call()
    client.close()
    await eventually(lambda: not gateway.shell.clients.all)
    await asyncio.sleep(0.01)
    assert len(endpoint.calls) == 1
    assert gateway.settled == 1


@pytest.mark.parametrize("asked", [b"GET /v1/models", b"POST /v1/completions"])
async def test_client_that_does_not_read_is_not_answered_without_end(start_gateway, asked, eventually):
    """Answers that the gateway makes itself wait for the client to read, instead of piling up here."""
    gateway = await start_gateway(settings={"clients_max_pipelined": 100000})
    client = await gateway.connect(receive_buffer=4096)
    one = asked + b" HTTP/1.1\r\nhost: g\r\ncontent-length: 20\r\n\r\n" + b'{"model": "nobody" }'
    total = 4000
    await eventually(lambda: gateway.shell.clients.all)
    (connection,) = gateway.shell.clients.all
    sock = connection._transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # or the kernel would take it all
    sender = asyncio.create_task(_send_all(client, one * total))
    await eventually(lambda: connection.is_paused)
    for _ in range(100):
        await asyncio.sleep(0.002)
        assert connection._transport.get_write_buffer_size() < 400_000
    assert connection.is_paused
    for _ in range(total):
        assert (await client.response()).status in (200, 503)
    await sender


async def _send_all(client, data):
    for at in range(0, len(data), 65536):
        client.send(data[at : at + 65536])
        await client.writer.drain()
