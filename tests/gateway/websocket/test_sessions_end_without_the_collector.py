"""However a session ends, it is freed at once, without a garbage collection."""

import pytest

pytestmark = pytest.mark.every_loop
TIMES = 3


@pytest.mark.parametrize("ends", ["client", "endpoint", "reset", "idle", "refused", "unopened"])
async def test_its_end_frees_it(
    start_gateway, start_sockets, open_session, opening, garbage, eventually, ends
):
    """Nothing is left for the collector, which the gateway makes rare."""
    response = {"refused": b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n", "unopened": b""}.get(ends)
    sockets = await (start_sockets() if response is None else start_sockets(response))
    gateway = await start_gateway(sockets)
    gateway.move(0)
    for _ in range(TIMES):
        if response is None:
            client = await open_session(gateway)
            client.send(b"\x81\x01a")
            await client.reader.readexactly(3)
        else:
            client = await gateway.connect()
            client.send(opening())
            await eventually(lambda: len(sockets.peers) and sockets.peers[-1].head)
        if ends in ("client", "unopened"):
            client.close()
        elif ends == "endpoint":
            sockets.peers[-1].transport.close()
        elif ends == "reset":
            sockets.peers[-1].transport.abort()
        elif ends == "idle":
            gateway.move(10_000)
            for each in list(gateway.shell.clients.all):
                each.sweep(gateway.shell.now())
            del each
        await client.rest()
        client.close()
        del client
        sockets.peers.clear()
        await eventually(lambda: not gateway.shell.clients.all)
    await gateway.idle()
    assert not garbage()
