"""Requests that take too long, and clients and endpoints that are silent, are ended in time."""

from __future__ import annotations

import asyncio
import socket

import pytest

from headgate import api, routing
from headgate.api.fallbacks import USUAL


@pytest.fixture
def timers(front):
    """They end when the test says so; the clock stands still, so that they are set for the whole time."""
    now = front.gateway.shell.now()
    front.gateway.shell.services.now = lambda: now
    return front.gateway.timers


@pytest.mark.parametrize("timeouts", [{"request": "60s"}, {"request": "1h", "backendRequest": "60s"}])
async def test_a_request_without_a_response_in_time_gets_504(timeouts, front, endpoint, service, to, timers):
    rule = {"backendRefs": [to("web")], "timeouts": timeouts}
    await front.route(rule, objects_=service("web", endpoint))
    asking = asyncio.create_task(front.ask())
    await endpoint.call()
    timers.end(60)
    assert (await asking).status == 504
    await endpoint.connections[0].lost


async def test_zero_is_no_limit(front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    rule = {"backendRefs": [to("web")], "timeouts": {"request": "0s"}}
    await front.route(rule, objects_=service("web", endpoint))
    assert (await front.ask()).status == 200


async def test_a_response_that_is_not_complete_in_time_is_cut_off(front, endpoint, service, to, timers):
    rule = {"backendRefs": [to("web")], "timeouts": {"request": "60s"}}
    await front.route(rule, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart")
    assert (await client.head()).status == 200
    timers.end(60)
    with pytest.raises(ConnectionResetError):
        await client.reader.readexactly(9)


async def test_an_endpoint_of_a_pool_is_bounded_too(front, endpoint, timers):
    pool = front.pool("llama", endpoint)
    await front.route({"backendRefs": [pool], "timeouts": {"request": "60s"}})
    asking = asyncio.create_task(front.ask("/v1/completions", "POST", b'{"model":"m"}'))
    await endpoint.call()
    timers.end(60)
    assert (await asking).status == 504
    await endpoint.connections[0].lost


async def test_the_time_of_a_rule_is_for_all_pools_together(front, start_endpoint, timers):
    """When it is over, no other pool takes the request over, which would have no end at all."""
    slow, spare = await start_endpoint(), await start_endpoint()
    front.pool("spare", spare)
    fallback = routing.Fallback(
        next=(routing.Next("", api.ObjectRef("InferencePool", "shop", "spare")),), reasons=USUAL
    )
    pool = front.pool("llama", slow, fallback=fallback)
    await front.route({"backendRefs": [pool], "timeouts": {"request": "60s"}})
    asking = asyncio.create_task(front.ask("/v1/completions", "POST", b'{"model":"m"}'))
    await slow.call()
    timers.end(60)
    response = await asking
    assert (response.status, response.json["error"]["code"]) == (504, "upstream_timeout")
    assert not spare.calls


async def test_a_head_that_does_not_come_is_told(front, endpoint, service, to, eventually):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(b"GET / HTTP/1.1\r\nhost:")
    await eventually(lambda: [each for each in front.gateway.shell.clients.all if each.reading_since])
    front.gateway.move(61)
    front.gateway.shell.clients.sweep(front.gateway.shell.now())
    assert (await client.response()).status == 408
    assert await client.is_closed()


async def test_an_idle_connection_is_closed(front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await client.response()
    front.gateway.move(front.gateway.shell.settings.clients.keep_alive_s + 1)
    front.gateway.shell.clients.sweep(front.gateway.shell.now())
    assert await client.is_closed()


async def test_draining_lets_the_request_end(front, endpoint, service, to):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client, idle = await front.connect(), await front.connect()
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    call = await endpoint.call()
    draining = asyncio.ensure_future(front.gateway.shell.drain(20))
    assert await idle.is_closed()
    call.answer(b"ok")
    response = await client.response()
    assert (response.status, response.header("connection")) == (200, "close")
    assert await draining == 0


@pytest.fixture
async def unread(front):
    """Connects a client that sends a payload, as far as it is read, and reads nothing."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sending: list[asyncio.Task[None]] = []

    async def start(payload: bytes) -> socket.socket:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", front.port))
        sending.append(loop.create_task(loop.sock_sendall(sock, payload)))
        return sock

    yield start
    for task in sending:
        task.cancel()
    await asyncio.gather(*sending, return_exceptions=True)
    sock.close()


def _buffered(front) -> int:
    return max(each._transport.get_write_buffer_size() for each in front.gateway.shell.clients.all)


async def test_responses_that_nobody_reads_are_bounded(
    front, start_endpoint, service, to, eventually, unread
):
    """Requests that are answered at once, such as those without a route, wait until they are read."""
    endpoint = await start_endpoint(b"ok")
    rule = {"matches": [{"path": {"value": "/here"}}], "backendRefs": [to("web")]}
    await front.route(rule, objects_=service("web", endpoint))
    sock = await unread(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 10_000)
    await eventually(lambda: front.gateway.shell.clients.all)
    [client] = front.gateway.shell.clients.all
    client._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    await eventually(lambda: client.is_paused)
    for _ in range(200):
        await asyncio.sleep(0)
        assert _buffered(front) < 256 * 1024
        assert len(client._incoming.ahead) < 512 * 1024
    # They go on once it reads.
    for each in (client._transport.get_extra_info("socket"), sock):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            each.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
    loop = asyncio.get_running_loop()
    read = 0
    async with asyncio.timeout(30):
        while read < 400_000:
            read += len(await loop.sock_recv(sock, 1 << 20))


@pytest.mark.parametrize("closes", [False, True])
async def test_a_client_that_never_reads_is_let_go(
    closes, front, start_endpoint, service, to, eventually, unread
):
    endpoint = await start_endpoint(b"x" * (16 << 20))
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    close = b"connection: close\r\n" if closes else b""
    await unread(b"GET / HTTP/1.1\r\nhost: a\r\n" + close + b"\r\n")
    await eventually(lambda: front.gateway.shell.clients.all)
    [client] = front.gateway.shell.clients.all
    await eventually(lambda: client.is_paused)
    front.gateway.move(front.gateway.shell.settings.endpoints.stream_idle_timeout_s + 1)
    front.gateway.shell.clients.sweep(front.gateway.shell.now())
    await eventually(lambda: not front.gateway.shell.clients.all)


async def test_nothing_is_served_behind_the_last_request(front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    rule = {"matches": [{"path": {"value": "/here"}}], "backendRefs": [to("web")]}
    await front.route(rule, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\nGET /here HTTP/1.1\r\nhost: a\r\n\r\n"
    )
    assert (await client.response()).status == 404
    assert await client.is_closed()
    await asyncio.sleep(0.05)
    assert not endpoint.calls


async def test_a_response_that_is_complete_must_be_read_too(
    front, start_endpoint, service, to, eventually, unread
):
    """Closing waits for the client to read: not forever."""
    endpoint = await start_endpoint(b"x" * 60_000)
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    await unread(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 200)
    await eventually(lambda: front.gateway.shell.clients.all)
    [client] = front.gateway.shell.clients.all
    await eventually(lambda: client.is_paused)
    client.close()
    assert client in front.gateway.shell.clients.all
    front.gateway.move(front.gateway.shell.settings.clients.keep_alive_s + 1)
    front.gateway.shell.clients.sweep(front.gateway.shell.now())
    await eventually(lambda: not front.gateway.shell.clients.all)
