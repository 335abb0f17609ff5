"""Sidecars that accept connections and say nothing delay the Pods of their own Model only."""

import asyncio
import contextlib
import json

from headgate.controllers.model.sidecar_loop import MOST_EACH, WORKERS, Duty, SidecarLoop
from headgate.controllers.model.sidecars import Adapter, Address


def duty(model, server, name):
    address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    return Duty(model, address, "token", (Adapter(name, "hf://a/b"),), ("1", "1"), True, False)


async def test_other_models_are_told_while_many_pods_are_silent():
    """None of the silent ones has timed out by then; all of them get their turn."""
    connected, told, news = 0, asyncio.Event(), []

    async def keep_silent(reader, writer):
        nonlocal connected
        connected += 1
        with contextlib.suppress(OSError):
            await reader.read()
            await reader.read()
        writer.close()

    async def respond(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        states = [{"name": "a", "source": "hf://a/b", "state": "Loaded"}]
        body = json.dumps({"adapters": states}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()
        told.set()

    loop = SidecarLoop(news.append)
    silent = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    good = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with silent, good:
        running = asyncio.create_task(loop.run())
        loop.assign("bad", {f"bad-{n}": duty("bad", silent, "a") for n in range(4 * WORKERS)})
        async with asyncio.timeout(60):
            while connected < MOST_EACH:
                await asyncio.sleep(0.01)
        loop.assign("good", {"good-0": duty("good", good, "a")})
        async with asyncio.timeout(60):
            await told.wait()
        assert connected == MOST_EACH
        assert loop.failures == 0
        async with asyncio.timeout(60):
            while connected == MOST_EACH:
                await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
