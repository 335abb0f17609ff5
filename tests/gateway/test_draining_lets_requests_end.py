"""While draining, idle connections close, running requests end, and new ones are not accepted."""

import asyncio

import pytest

pytestmark = pytest.mark.every_loop


async def test_idle_connections_close_and_running_requests_end(gateway, endpoint):
    """A drain waits for what runs, and for nothing else."""
    idle, running = await gateway.connect(), await gateway.connect()
    running.post()
    call = await endpoint.call()
    draining = asyncio.create_task(gateway.shell.drain(60))
    assert await idle.is_closed()
    assert not draining.done()
    call.answer(b"to the end")
    assert (await running.response()).body == b"to the end"
    assert await running.is_closed()
    assert await draining == 0


async def test_request_that_is_still_coming_is_served(gateway, endpoint, eventually):
    """A client that has begun to send its request gets its answer."""
    client = await gateway.connect()
    client.send(b'POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 13\r\n\r\n{"mod')
    connection = await gateway.taken()
    await eventually(lambda: connection._reader.body_bytes)
    draining = asyncio.create_task(gateway.shell.drain(60))
    await asyncio.sleep(0.01)
    client.send(b'el":"m"}')
    (await endpoint.call()).answer(b"still served")
    assert (await client.response()).body == b"still served"
    assert await draining == 0


async def test_requests_behind_a_running_one_are_not_begun(gateway, endpoint, request_bytes):
    """Of requests sent ahead, only the running one is answered before the connection closes."""
    client = await gateway.connect()
    client.send(request_bytes() * 3)
    call = await endpoint.call()
    draining = asyncio.create_task(gateway.shell.drain(60))
    await asyncio.sleep(0)
    call.answer()
    assert (await client.response()).status == 200
    assert await client.is_closed()
    assert await draining == 0
    assert len(endpoint.calls) == 1


async def test_connection_that_came_late_is_closed_by_the_sweep(gateway, eventually):
    """One that was accepted after the drain began, and asks for nothing, does not hold it up."""
    gateway.shell.services.shutdown.is_draining = True
    client = await gateway.connect()
    await eventually(lambda: gateway.shell.clients.all)
    next(iter(gateway.shell.clients.all)).sweep(gateway.shell.now())
    assert await client.is_closed()


async def test_what_does_not_end_is_counted(gateway, endpoint):
    """A drain that runs out of time says how many connections it leaves."""
    client = await gateway.connect()
    client.post()
    await endpoint.call()
    assert await gateway.shell.drain(0.01) == 1
