"""Who waits for another server amid a TLS handshake leaves no connection behind when that is cut."""

import asyncio
import types

import pytest

from headgate.simulator.server.kv_transfer.side_channel import ReadBlocks, SideChannel

PATIENCE_S = 60.0


@pytest.fixture
async def silent():
    """A server that never answers a handshake, and notes when it begins and ends."""
    noted = types.SimpleNamespace(greeted=asyncio.Event(), ended=asyncio.Event())

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read(1)
        noted.greeted.set()
        await reader.read()
        noted.ended.set()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    noted.host, noted.port = server.sockets[0].getsockname()
    async with server:
        yield noted


async def test_an_engine_that_holds_blocks(silent):
    """It is as if it had none."""
    rooms = types.SimpleNamespace(close_all=lambda: None)
    channel = SideChannel("e", None, rooms, None, by_tls=True)
    asking = asyncio.ensure_future(channel.read_blocks(silent.host, silent.port, ReadBlocks("e", [1])))
    async with asyncio.timeout(PATIENCE_S):
        await silent.greeted.wait()
        channel.cut()
        assert await asking is None
        await silent.ended.wait()
    await channel.aclose()
