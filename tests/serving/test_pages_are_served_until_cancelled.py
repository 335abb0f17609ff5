"""Small HTTP pages beside the data path: metrics, health, and what the gateway knows."""

import asyncio
import contextlib
import datetime
import socket

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headgate import serving
from headgate.apiserver import pki


async def _hello(_):
    return PlainTextResponse("hello")


APP = Starlette(routes=[Route("/", _hello)])


async def _text(client: httpx2.AsyncClient) -> str | None:
    with contextlib.suppress(httpx2.TransportError):
        return (await client.get("/")).text


async def test_page_is_there_until_its_task_is_cancelled(unused_tcp_port):
    """Serving begins at once, ends with the task, and leaves the port free."""
    port = unused_tcp_port
    for _ in range(2):
        task = asyncio.create_task(serving.serve_page(APP, serving.listening_socket("127.0.0.1", port)))
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
            async with asyncio.timeout(30):
                while (text := await _text(client)) is None:
                    await asyncio.sleep(0.01)
            assert text == "hello"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_address_in_use_is_named():
    """The error says which address it was."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: "):
            serving.listening_socket("127.0.0.1", port)


def test_processes_share_an_address():
    """Shared sockets bind to one port, so that several gateways serve on it."""
    first = serving.listening_socket("127.0.0.1", 0, shared=True)
    port = first.getsockname()[1]
    second = serving.listening_socket("127.0.0.1", port, shared=True)
    assert second.getsockname()[1] == port
    first.close()
    second.close()


async def test_a_peer_amid_its_tls_handshake_is_let_go(tmp_path):
    """A connection on which nothing was said yet ends with the server, not with the process."""
    identity = pki.ensure(tmp_path, "127.0.0.1", datetime.datetime.now(datetime.UTC))
    listener = serving.listening_socket("127.0.0.1", 0)
    options = serving.configuration(APP, ssl_certfile=identity.cert, ssl_keyfile=identity.key)
    async with contextlib.aclosing(serving.EmbeddedServer(options)) as server:
        task = asyncio.create_task(server.serve([listener]))
        await server.accepting.wait()
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        while not listener.accepted:
            await asyncio.sleep(0)
        server.stop()
        await task
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    assert all(peer.fileno() == -1 for peer in listener.accepted)
    writer.close()
    await writer.wait_closed()
