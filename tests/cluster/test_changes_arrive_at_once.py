"""How long a change takes from the server's write to the handler."""

import asyncio
import time

from headgate import api
from headgate.cluster import Informer


async def test_a_change_arrives_at_once(server, client, kit):
    """The fastest of 30 changes, one by one, reaches the handler in under a second: no period is waited for,
    and a busy machine may delay the others."""
    informer = Informer(client, api.ConfigMap)
    arrived = asyncio.Queue()
    informer.subscribe(lambda change: arrived.put_nowait(time.perf_counter()))
    took_s = []
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        for number in range(30):
            written = time.perf_counter()
            server.put(f"object-{number}")
            took_s.append(await arrived.get() - written)
    assert min(took_s) < 1  # milliseconds, on a machine that is not busy


async def test_many_watches_leave_connections_for_requests(server, client, kit):
    """With 60 open watches, a request is answered as if there were none."""
    server.put("a")
    informers = [Informer(client, api.ConfigMap) for _ in range(60)]
    async with kit.running(*(informer.run() for informer in informers)):
        await kit.eventually(lambda: server.watches == 60, timeout_s=20)
        async with asyncio.timeout(60):
            assert len(await client.list(api.ConfigMap)) == 1
