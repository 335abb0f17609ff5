"""What a request or a connection leaves behind is freed at once, not by the next garbage collection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_picker import Picker, at

from headgate import extproc, routing, rpc

ROUNDS = 5


@pytest.fixture
async def many(front, eventually):
    """Makes the same request on several connections, one after the other."""

    async def ask(path: str = "/", method: str = "POST", body: bytes = b'{"model":"m"}') -> None:
        for _ in range(ROUNDS):
            await front.ask(path, method, body)
        await eventually(lambda: not front.gateway.shell.clients.all)

    return ask


async def test_requests_to_services(front, many, start_endpoint, service, to, garbage):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    await many()
    await many(method="HEAD", body=b"")
    assert not garbage()


async def test_requests_to_pools(front, many, start_endpoint, garbage):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [front.pool("llama", endpoint)], "timeouts": {"request": "1h"}})
    await many()
    await many(body=b"")
    assert not garbage()


async def test_requests_that_fail(front, many, start_endpoint, service, to, garbage):
    dead = await start_endpoint(b"no")
    await dead.stop()
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", dead))
    await many()
    await front.route({"backendRefs": [to("missing")]})
    await many()
    assert not garbage()


async def test_redirects(front, many, garbage):
    redirect = {"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}
    await front.route({"filters": [redirect]})
    await many()
    assert not garbage()


async def test_clients_that_leave(front, endpoint, service, to, garbage, eventually):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    for _ in range(ROUNDS):
        client = await front.connect()
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\npart")
        await eventually(lambda: front.gateway.shell.clients.all)
        await asyncio.sleep(0.01)
        client.close()
        await eventually(lambda: not front.gateway.shell.clients.all)
    assert not garbage()


async def test_rejected_heads(front, start_endpoint, service, to, garbage, eventually):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    for _ in range(ROUNDS):
        client = await front.connect()
        client.send(b"GET / HTTP/9\r\n\r\n")
        await client.rest()
        client.close()
    await eventually(lambda: not front.gateway.shell.clients.all)
    assert not garbage()


async def test_requests_that_a_picker_picks(
    front, many, start_endpoint, service, held_port, garbage, eventually
):
    picker = Picker(held_port())
    await picker.start()
    endpoint = await start_endpoint(b"ok")
    pool = front.pool("llama", endpoint, picker=routing.Picker("epp", 80, fails_open=True))
    objects = service("epp", picker, appProtocol="kubernetes.io/h2c")
    await front.route({"backendRefs": [pool]}, objects_=objects)

    def answer(stream: Any) -> None:
        stream.pick(at(endpoint))

    picker.answer = answer
    await many()
    picker.answer = lambda stream: stream.reply(extproc.ImmediateResponse(429, None, b"full"))
    await many()
    picker.answer = lambda stream: stream.call.finish(rpc.status.INTERNAL, "broken")
    await many()
    picker.answer = lambda stream: None
    client = await front.connect()
    client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
    await eventually(lambda: picker.streams[-1].body == b"{}")
    client.close()
    await eventually(lambda: picker.streams[-1].ended)
    await picker.stop()
    await many()
    picker.streams.clear()
    picker.answer = answer
    assert not garbage()


async def test_upgrades(front, start_endpoint, service, to, garbage, eventually):
    endpoint = await start_endpoint()
    endpoint.behave = lambda call: call.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    for leave in ("client", "endpoint") * ROUNDS:
        client = await front.connect()
        client.send(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
        await client.head()
        if leave == "client":
            client.close()
        else:
            endpoint.calls[-1].close()
            await client.rest()
        await eventually(lambda: not front.gateway.shell.clients.all)
    assert not garbage()


async def test_copies_for_mirrors(front, many, start_endpoint, service, to, garbage, eventually):
    endpoint, shadow = await start_endpoint(b"ok"), await start_endpoint(b"ignored")
    mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "shadow", "port": 80}}}
    objects = [*service("web", endpoint), *service("shadow", shadow)]
    await front.route({"filters": [mirror], "backendRefs": [to("web")]}, objects_=objects)
    await many()
    await eventually(lambda: len(shadow.calls) == ROUNDS)
    await eventually(lambda: not front.gateway.shell.gateways.mirrors_in_flight)
    assert not garbage()


async def test_responses_that_come_too_late(front, endpoint, service, to, garbage, eventually):
    rule = {"backendRefs": [to("web")], "timeouts": {"request": "20ms"}}
    await front.route(rule, objects_=service("web", endpoint))
    for _ in range(ROUNDS):
        assert (await front.ask()).status == 504
    await front.route({**rule, "backendRefs": [front.pool("llama", endpoint)]})
    for _ in range(ROUNDS):
        assert (await front.ask("/", "POST", b'{"model":"m"}')).status == 504
    await eventually(lambda: not front.gateway.shell.clients.all)
    assert not garbage()
