"""When a client leaves, all work for its request stops immediately."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.every_loop


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("way", ["abort", "close", "half_close"])
async def test_endpoint_is_cut_off(gateway, endpoint, stream, begun, way, eventually):
    """Streamed or not, begun or not: the connection to the endpoint ends with the client's."""
    client = await gateway.connect()
    client.post({"model": "m", "stream": stream})
    call = await endpoint.call()
    if begun:
        call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234")
        await client.head()
    if way == "half_close":
        client.writer.write_eof()
    else:
        getattr(client.writer.transport, way)()
    async with asyncio.timeout(30):
        await endpoint.connections[0].lost
    await eventually(lambda: gateway.settled == 1)
    assert gateway.metric("headgate_gateway_requests_total", code="499") == 1
    assert "outcome=client_gone" in gateway.log_lines()[0]


async def test_while_connecting(start_gateway, eventually):
    """A client that leaves while its endpoint is connected to is forgotten."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        full = SimpleNamespace(port=listener.getsockname()[1])
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", full.port))
        gateway = await start_gateway(full)
        client = await gateway.connect()
        client.post()
        await eventually(lambda: gateway.shell.services.background._tasks)
        client.close()
        await eventually(lambda: gateway.settled == 1)
        await eventually(lambda: not gateway.shell.services.background._tasks)
        for filler in fillers:
            filler.close()


async def test_while_waiting_to_try_again(start_gateway, start_endpoint, eventually):
    """No further attempt is made for a client that has left."""
    endpoints = [await start_endpoint(behave=lambda call: call.answer(b"", "503 Busy")) for _ in range(2)]
    gateway = await start_gateway(*endpoints, attempts=1, retry_interval_s=60)
    timers = gateway.timers
    client = await gateway.connect()
    client.post()
    await eventually(lambda: timers.running(60))
    client.close()
    await eventually(lambda: gateway.settled == 1)
    assert timers.running(60) == []
    assert endpoints[1].calls == []


async def test_answers_written_before_the_client_stopped_sending(gateway):
    """A client that sends a request and the end of its side still gets what needs no waiting."""
    client = await gateway.connect()
    client.send(b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n")
    client.writer.write_eof()
    assert (await client.response()).status == 200
    assert await client.is_closed()


async def test_many_that_leave_at_any_moment(start_gateway, start_endpoint, eventually):
    """Clients that leave after any number of turns of the event loop leave nothing behind."""
    endpoints = [await start_endpoint(b"x" * 1000) for _ in range(2)]
    gateway = await start_gateway(*endpoints, settings={"endpoints_max_idle_connections": 0})
    for turns in range(40):
        client = await gateway.connect()
        client.post()
        for _ in range(turns):
            await asyncio.sleep(0)
        client.close()
    await eventually(lambda: not gateway.shell.clients.all)
    await eventually(lambda: not gateway.shell.services.background._tasks)
    await gateway.idle()
    await eventually(lambda: all(c["open"] == 0 for c in gateway.shell.statistics()["connections"].values()))
