"""A gateway, and an endpoint that agrees to WebSockets and shows every byte that it gets."""

import asyncio
import types

import pytest

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
SWITCHING = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: y\r\n\r\n"
)


def opening(path: str = "/v1/realtime?model=m", *, more: str = "", key: str = KEY) -> bytes:
    """The request that opens a WebSocket."""
    return (
        f"GET {path} HTTP/1.1\r\nhost: gateway\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n"
    ).encode()


@pytest.fixture(name="opening")
def _opening():
    return opening


class Peer(asyncio.Protocol):
    """The endpoint's side of one connection."""

    def __init__(self, sockets) -> None:
        self._sockets = sockets
        self.head = b""
        self.received = bytearray()
        self.lost = asyncio.Event()

    def connection_made(self, transport) -> None:
        self.transport = transport
        self._sockets.peers.append(self)

    def data_received(self, data: bytes) -> None:
        if not self.head:
            self.head, _, data = data.partition(b"\r\n\r\n")
            if self._sockets.response:
                self.transport.write(self._sockets.response)
        self.received += data
        if self._sockets.echoes and data:
            self.transport.write(data)

    def connection_lost(self, error) -> None:
        self.lost.set()


@pytest.fixture
async def start_sockets(held_port):
    """Starts an endpoint of WebSockets; `response` is what it answers to each request."""
    servers = []

    async def start(response: bytes = SWITCHING, *, echoes: bool = True):
        sockets = types.SimpleNamespace(port=held_port(), peers=[], response=response, echoes=echoes)
        loop = asyncio.get_running_loop()
        servers.append(
            await loop.create_server(lambda: Peer(sockets), "127.0.0.1", sockets.port, reuse_address=True)
        )
        return sockets

    yield start
    for server in servers:
        server.close()


@pytest.fixture
async def sockets(start_sockets):
    return await start_sockets()


@pytest.fixture
def open_session():
    """Opens a session through a gateway: the client's side, after 101."""

    async def start(gateway, **told):
        client = await gateway.connect()
        client.send(opening(**told))
        head = await client.head()
        assert head.status == 101
        return client

    return start
