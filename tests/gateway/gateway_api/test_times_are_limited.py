"""Requests that take too long, and clients and endpoints that are silent, are ended in time."""

from __future__ import annotations

import asyncio

import pytest


@pytest.mark.parametrize("timeouts", [{"request": "100ms"}, {"request": "1h", "backendRequest": "100ms"}])
async def test_a_request_without_a_response_in_time_gets_504(timeouts, front, endpoint, service, to):
    rule = {"backendRefs": [to("web")], "timeouts": timeouts}
    await front.route(rule, objects_=service("web", endpoint))
    assert (await front.ask()).status == 504
    await endpoint.connections[0].lost


async def test_zero_is_no_limit(front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    rule = {"backendRefs": [to("web")], "timeouts": {"request": "0s"}}
    await front.route(rule, objects_=service("web", endpoint))
    assert (await front.ask()).status == 200


async def test_a_response_that_is_not_complete_in_time_is_cut_off(front, endpoint, service, to):
    rule = {"backendRefs": [to("web")], "timeouts": {"request": "200ms"}}
    await front.route(rule, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart")
    assert (await client.head()).status == 200
    with pytest.raises(ConnectionResetError):
        await client.reader.readexactly(9)


async def test_an_endpoint_of_a_pool_is_bounded_too(front, endpoint):
    pool = front.pool("llama", endpoint)
    await front.route({"backendRefs": [pool], "timeouts": {"request": "100ms"}})
    response = await front.ask("/v1/completions", "POST", b'{"model":"m"}')
    assert response.status == 504
    await endpoint.connections[0].lost


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
