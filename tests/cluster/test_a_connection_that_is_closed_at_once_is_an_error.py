"""A server that is about to end accepts connections, and closes them at once."""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator

import httpx2
import pytest

from headgate import http_clients

RESET = struct.pack("ii", 1, 0)
NO_DELAY = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]


@pytest.fixture
def address() -> Iterator[str]:
    """Of a server that resets every connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:

        def run() -> None:
            while True:
                connection, _ = server.accept()
                if is_over.is_set():
                    connection.close()
                    return
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                connection.close()

        is_over = threading.Event()
        thread = threading.Thread(target=run)
        thread.start()
        host, port = server.getsockname()
        yield f"http://{host}:{port}"
        is_over.set()
        socket.create_connection((host, port)).close()
        thread.join()


@pytest.mark.every_loop
async def test_it_fails_as_connections_do(address):
    """Never by an error that nobody expects, whichever loop runs."""
    transport = http_clients.transport(socket_options=NO_DELAY)
    async with httpx2.AsyncClient(transport=transport) as http:
        for _ in range(10):
            found = await asyncio.gather(*(http.get(address) for _ in range(50)), return_exceptions=True)
            assert {isinstance(each, httpx2.TransportError) for each in found} == {True}, found
