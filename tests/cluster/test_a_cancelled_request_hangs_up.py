"""A request that is given up leaves no connection behind, wherever it was."""

import asyncio

from headgate.cluster import connection


async def test_a_request_cancelled_amid_its_tls_handshake_closes_its_connection():
    """The server, which never answers the handshake, sees the end at once."""
    greeted, ended = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read(1)
        greeted.set()
        await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        link = connection.from_url(f"https://{host}:{port}")
        request = asyncio.create_task(link.requests.get("/version"))
        await greeted.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        async with asyncio.timeout(60):
            await ended.wait()
        await link.aclose()
