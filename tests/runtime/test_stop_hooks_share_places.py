"""Requests to /drain wait for minutes, and anyone can send them: nobody takes all places."""

import asyncio
import collections

import pytest

from headgate.runtime.errors import ApiError
from headgate.runtime.hooks import MOST, MOST_EACH, Hooks

HOOK = b"GET /drain HTTP/1.1\r\nhost: x\r\n\r\n"


async def wait(port, source):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.write(HOOK)
    return reader, writer


async def test_a_flood_does_not_end_the_hook_of_the_kubelet(sidecar):
    """40 requests from 5 addresses are there; one from another address waits nevertheless."""

    async def keep_silent(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    async with server:
        beside = await sidecar(server.sockets[0].getsockname()[1])
        flood = [await wait(beside.port, f"127.0.0.{2 + n % 5}") for n in range(40)]
        refused = [asyncio.create_task(reader.read(12)) for reader, _ in flood]
        async with asyncio.timeout(60):
            while sum(task.done() for task in refused) < 40 - MOST:
                await asyncio.sleep(0.05)
        hook, hook_writer = await wait(beside.port, "127.0.0.99")
        told = asyncio.create_task(hook.read(12))
        async with asyncio.timeout(60):
            while sum(task.done() for task in refused) < 41 - MOST:
                await asyncio.sleep(0.05)
        assert {task.result() for task in refused if task.done()} == {b"HTTP/1.1 503"}
        assert not told.done()
        for task in (*refused, told):
            task.cancel()
        for _, writer in (*flood, (hook, hook_writer)):
            writer.close()


async def test_places_come_back():
    """Whether a request ends by itself or for another; an address has a limit of its own."""
    hooks, ended = Hooks(), collections.Counter()

    async def one(client):
        try:
            async with hooks.place(client):
                await asyncio.Event().wait()
        except ApiError:
            ended[client] += 1

    tasks = [asyncio.create_task(one(f"a{n // MOST_EACH}")) for n in range(MOST)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError, match=f"{MOST_EACH} requests of a0"):
        async with hooks.place("a0"):
            pass
    async with hooks.place("b"), hooks.place("c"):
        await asyncio.sleep(0.01)
        assert ended.total() == 2
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with hooks.place("a0"):
        pass
    assert not hooks._waiting
